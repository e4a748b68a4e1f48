"""The action image: fleet_machine and the tools that it calls, as an OCI archive.

`deploy/hookos/Containerfile` describes the same for an owner's own builder.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from fleet_lab.images.cache import ImageCache, content_key, folder_bytes
from fleet_lab.images.filetree import Folder, Link, Node, python_package, write_tar
from fleet_lab.images.hookos import ACCOUNTS, PYTHON
from fleet_lab.images.oci import Layer, archive_digest, write_archive
from fleet_lab.images.packages import Suite, compile_python, extracted_root
from fleet_lab.images.selection import MERGED_LINKS, select
from fleet_lab.places import CHECKOUT

NAME = "fleet-machine"
FLEET_MACHINE = CHECKOUT / "fleet_machine" / "fleet_machine"
PACKAGES_FOLDER = "usr/lib/python3/dist-packages"

# What fleet_machine imports and calls, in HookOS and in the installed system alike.
MACHINE_FILES = (
    "bin/busybox",
    *PYTHON,
    *(
        f"{PACKAGES_FOLDER}/{name}"
        for name in (
            "tpm2_pytss",
            "cryptography",
            "zstandard",
            "cffi",
            "_cffi_backend*",
            "pycparser",
            "ply",
            "asn1crypto",
            "packaging",
            "yaml",
        )
    ),
    "usr/lib/x86_64-linux-gnu/ossl-modules/*.so",
    "usr/lib/x86_64-linux-gnu/libtss2-tcti-device.so*",
    "usr/lib/x86_64-linux-gnu/libtss2-tcti-swtpm.so*",
    "usr/lib/x86_64-linux-gnu/libtss2-tctildr.so*",
)

_TOOLS = (
    "usr/sbin/nvme",
    "sbin/hdparm",
    "sbin/mke2fs",
    "sbin/e2fsck",
    "sbin/debugfs",
    "sbin/resize2fs",
    "sbin/mkfs.fat",
    "sbin/fsck.fat",
    "sbin/blkdiscard",
    "sbin/wipefs",
    "sbin/sfdisk",
    "usr/bin/mtools",
    *(f"usr/bin/{name}" for name in ("mcopy", "mtype", "mmd", "mdir", "mdel")),
    # mtools converts names by iconv, which loads its code pages at run time.
    *(f"usr/lib/x86_64-linux-gnu/gconv/{name}" for name in ("gconv-modules*", "IBM850.so", "UTF-16.so", "UTF-32.so")),
    "bin/lsblk",
    "sbin/blkid",
    "bin/mount",
    "bin/umount",
)


@dataclass(frozen=True, slots=True)
class ActionImage:
    """The archive, and the digest by which Templates and HookOS name the image."""

    archive: Path
    digest: str

    def reference(self, registry: str) -> str:
        """The image reference of a Template for a registry at HOST:PORT."""
        return f"{registry}/{NAME}@{self.digest}"


def build_action_image(cache: ImageCache, suite: Suite) -> ActionImage:
    """Build (or find) the action image of this checkout's fleet_machine.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    base = action_base(cache, suite)
    key = content_key("action", base.name, fleet_machine_sources())
    root = extracted_root(cache, suite)
    archive = cache.get("action", key, lambda out: _write_image(root, base, out)) / f"{NAME}.tar"
    return ActionImage(archive, archive_digest(archive))


def action_base(cache: ImageCache, suite: Suite) -> Path:
    """The lower layer (tar): everything but fleet_machine itself, so that a changed line costs a small layer only."""
    root = extracted_root(cache, suite)
    key = content_key("action-base", "2", root.name, *MACHINE_FILES, *_TOOLS)
    return cache.get("action-base", key, lambda out: _write_base(root, out))


def machine_base(root: Path, more: tuple[str, ...]) -> tuple[Node, ...]:
    """The files that fleet_machine needs, and more, as a tree that can be entered."""
    links = {link.path for link in MERGED_LINKS}
    return (
        *MERGED_LINKS,
        *(
            Folder(name)
            for name in ("dev", "proc", "sys", "run", "mnt", "etc", "var", "root", "run/fleet", "usr/bin", "usr/sbin")
        ),
        Folder("tmp", 0o1777),
        *(node for node in select(root, (*MACHINE_FILES, *more)) if node.path not in links),
        Link("usr/bin/sh", "busybox"),
        *ACCOUNTS,
    )


def _write_base(root: Path, out: Path) -> None:
    with out.open("wb") as file:
        write_tar(machine_base(root, _TOOLS), file)


def fleet_machine_nodes(root: Path, scratch: Path) -> tuple[Node, ...]:
    """fleet_machine with its byte code; `scratch` is a folder that does not exist yet and is needed until written."""
    copy = scratch / "fleet_machine"
    shutil.copytree(FLEET_MACHINE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compile_python(root, [copy], strip=scratch, prefix=f"/{PACKAGES_FOLDER}")
    return tuple(python_package(copy, f"{PACKAGES_FOLDER}/fleet_machine"))


def fleet_machine_sources() -> bytes:
    """Digest of this checkout's fleet_machine, as an input of `content_key`."""
    sources = (path for path in FLEET_MACHINE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return folder_bytes(sources, FLEET_MACHINE)


def _write_image(root: Path, base: Path, out: Path) -> None:
    out.mkdir()
    top = out / "layer.tar"
    with top.open("wb") as file:
        write_tar(fleet_machine_nodes(root, out / "scratch"), file)
    shutil.rmtree(out / "scratch")
    config = {
        "Entrypoint": ["/usr/bin/python3", "-m", "fleet_machine"],
        "Env": ["PATH=/usr/sbin:/usr/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"],
        "WorkingDir": "/",
    }
    write_archive(out / f"{NAME}.tar", NAME, [Layer.of(base), Layer.of(top)], config)
    top.unlink()
