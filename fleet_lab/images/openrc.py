"""OpenRC, and the services of `deploy/alpine` under it, as an owner has them on Alpine."""

from pathlib import Path

from fleet_lab.images.filetree import File, Folder, Link, Node
from fleet_lab.images.packages import run
from fleet_lab.images.selection import select
from fleet_lab.places import CHECKOUT

_DEPLOY = CHECKOUT / "deploy" / "alpine"
_OPENRC = (
    *(f"sbin/{name}" for name in ("openrc", "openrc-run", "rc-service", "rc-update", "supervise-daemon")),
    "bin/rc-status",
    "lib/rc",
)
_LEVELS = ("sysinit", "boot", "default", "shutdown")
_SERVICES = ("fleet-claim-seed", "fleet-boot-check")


def openrc_nodes(root: Path) -> tuple[Node, ...]:
    """Return OpenRC without any service, and busybox under all its names, as on Alpine; `root` are the packages."""
    found = select(root, ("bin/busybox", *_OPENRC))
    taken = {node.path for node in found}
    applets = run(root / _busybox(root), "--list").decode().split()
    links = (Link(f"usr/bin/{name}", "busybox") for name in applets if name != "busybox")
    return (
        *(link for link in links if link.path not in taken and link.path.replace("/bin/", "/sbin/") not in taken),
        *found,
        Link("var/run", "/run"),
        # OpenRC reads these, and the packages keep them for their maintainer scripts.
        File("etc/rc.conf", b""),
        File("etc/fstab", b""),
        File("etc/insserv.conf", b""),
        *(Folder(f"etc/runlevels/{level}") for level in _LEVELS),
        *(Folder(f"etc/{name}") for name in ("rc.d", *(f"rc{level}.d" for level in "0123456S"))),
    )


def service_nodes() -> tuple[Node, ...]:
    """Return the two services, in the runlevel that `rc-update add … default` puts them into."""
    return tuple(node for name in _SERVICES for node in _service(name, f"{name}.initd"))


def _service(name: str, file: str) -> tuple[Node, ...]:
    return (
        File(f"etc/init.d/{name}", _DEPLOY / file, 0o755),
        Link(f"etc/runlevels/default/{name}", f"/etc/init.d/{name}"),
    )


def _busybox(root: Path) -> str:
    return "bin/busybox" if (root / "bin" / "busybox").is_file() else "usr/bin/busybox"
