"""The OCI runtime configuration of one action: what the Tinkerbell agent asks of its container runtime.

Like the agent of Tinkerbell 0.25, every action is privileged and on the host's network; the Template decides volumes,
environment, arguments and the pid namespace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_CAPABILITIES = [
    f"CAP_{name}"
    for name in [
        "AUDIT_CONTROL",
        "AUDIT_READ",
        "AUDIT_WRITE",
        "BLOCK_SUSPEND",
        "BPF",
        "CHECKPOINT_RESTORE",
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "FSETID",
        "IPC_LOCK",
        "IPC_OWNER",
        "KILL",
        "LEASE",
        "LINUX_IMMUTABLE",
        "MAC_ADMIN",
        "MAC_OVERRIDE",
        "MKNOD",
        "NET_ADMIN",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_RAW",
        "PERFMON",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYSLOG",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_CHROOT",
        "SYS_MODULE",
        "SYS_NICE",
        "SYS_PACCT",
        "SYS_PTRACE",
        "SYS_RAWIO",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "WAKE_ALARM",
    ]
]


@dataclass(frozen=True)
class Volume:
    """SOURCE:DESTINATION[:ro] of a Template; the source is a path of the host."""

    source: str
    destination: str
    read_only: bool

    @classmethod
    def parse(cls, text: str) -> "Volume":
        """Read a volume.

        Raises:
            ValueError: it is not made of two absolute paths (named volumes exist only under docker).
        """
        source, _, rest = text.partition(":")
        destination, _, options = rest.partition(":")
        if not source.startswith("/") or not destination.startswith("/"):
            raise ValueError(f"volume {text} is not made of two absolute paths")
        return cls(source, destination, "ro" in options.split(","))


def runtime_configuration(
    image: dict[str, Any], command: Sequence[str], environment: Sequence[str], volumes: Sequence[Volume], pid: str
) -> dict[str, Any]:
    """Return config.json (OCI runtime specification 1.0) for an unpacked image.

    `image` is the image's configuration; `command` are arguments to its entry point, as the agent passes them.
    """
    arguments = [*(image.get("Entrypoint") or []), *(command or image.get("Cmd") or [])]
    namespaces = [{"type": kind} for kind in ("mount", "ipc", "uts")]
    if pid != "host":
        namespaces.append({"type": "pid"})
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": arguments,
            "env": [*(image.get("Env") or []), *environment],
            "cwd": image.get("WorkingDir") or "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
            "noNewPrivileges": False,
        },
        "root": {"path": "rootfs", "readonly": False},
        "mounts": [*_own_mounts(volumes), *(_bind(volume) for volume in volumes)],
        "linux": {"namespaces": namespaces, "resources": {"devices": [{"allow": True, "access": "rwm"}]}},
    }


def _own_mounts(volumes: Sequence[Volume]) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "rw"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
    ]
    if all(volume.destination != "/dev" for volume in volumes):
        options = ["nosuid", "strictatime", "mode=755"]
        mounts.append({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": options})
    return mounts


def _bind(volume: Volume) -> dict[str, Any]:
    options = ["rbind", "ro" if volume.read_only else "rw"]
    return {"destination": volume.destination, "type": "bind", "source": volume.source, "options": options}
