"""A container of an image that was built here: unpacked, described as its Containerfile says, run by crun without a registry."""

import json
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

NAMESPACES = ("pid", "mount", "ipc", "uts")
"""Not the network: what is tested calls services on this host's loopback, and is called there."""
_UNIFIED = (
    *("unshare", "--mount", "--propagation=private", "sh", "-ec"),
    'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec "$@"',
    "sh",
)
"""crun starts nothing where the host has cgroups of both versions; here they are of version 2 for it, and nothing is limited."""


@dataclass(frozen=True)
class Declared:
    """What a Containerfile says of how its image runs."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    user: int = 0
    environment: tuple[str, ...] = ()

    @classmethod
    def read(cls, containerfile: Path):
        """Read the lines that matter at run time."""
        said = {}
        for line in containerfile.read_text().splitlines():
            word, _, rest = line.partition(" ")
            said[word] = rest
        return cls(
            tuple(json.loads(said["ENTRYPOINT"])),
            tuple(json.loads(said.get("CMD", "[]"))),
            int(said.get("USER", "0").partition(":")[0]),
            tuple(shlex.split(said.get("ENV", ""))),
        )


@dataclass
class Image:
    """An unpacked root file system, and how it is to be run; nothing ever writes to it."""

    root: Path
    declared: Declared
    folder: Path
    context: Path
    """What a container engine builds it from."""
    mounts: list[dict] = field(default_factory=list)

    def bind(self, source: Path, target: str, *, write: bool = False):
        """Mount a folder of this host."""
        options = ["bind", "rw" if write else "ro", "nosuid", "nodev"]
        self.mounts.append({"destination": target, "type": "bind", "source": str(source), "options": options})

    def run(self, *command: str, user: int | None = None, entrypoint: tuple[str, ...] | None = None):
        """Run it to its end; without a command as its Containerfile says."""
        return subprocess.run(self._crun(command, user, entrypoint), capture_output=True, text=True, check=False)

    def start(self, *command: str, log: Path):
        """Start it in the background."""
        with log.open("wb") as output:
            return subprocess.Popen(self._crun(command, None, None), stdout=output, stderr=subprocess.STDOUT)

    def _crun(self, command, user, entrypoint):
        bundle = self.folder / f"bundle-{uuid4().hex[:8]}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._configuration(command, user, entrypoint)))
        crun = ["crun", "--cgroup-manager=disabled", "run", f"--bundle={bundle}", f"test-{bundle.name}"]
        return [*_UNIFIED, *crun]

    def _configuration(self, command, user, entrypoint):
        uid = self.declared.user if user is None else user
        program = self.declared.entrypoint if entrypoint is None else entrypoint
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": uid, "gid": uid},
                "args": [*program, *(command or self.declared.command)],
                "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", *self.declared.environment],
                "cwd": "/",
                "capabilities": {},
                "noNewPrivileges": True,
            },
            "root": {"path": str(self.root), "readonly": True},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                {
                    "destination": "/tmp",
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": ["nosuid", "nodev", "mode=1777"],
                },
                *self.mounts,
            ],
            "linux": {"namespaces": [{"type": name} for name in NAMESPACES]},
        }


def built(script: Path, context: Path, folder: Path) -> Image:
    """Build what a Containerfile adds, unless the context holds it already, and unpack it as a container engine would."""
    if not (context / "Containerfile").exists():
        done = subprocess.run([str(script), str(context)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    root = folder / "root"
    root.mkdir()
    subprocess.run(["tar", "-C", str(root), "--exclude=./dev/*", "-xf", str(context / "rootfs.tar")], check=True)
    return Image(root, Declared.read(context / "Containerfile"), folder, context)
