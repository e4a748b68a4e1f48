"""The Debian packages that every image of the lab is made of, extracted once into one folder.

mmdebstrap's `extract` variant only unpacks: no maintainer script runs, nothing is entered by chroot. So it needs
neither root nor user namespaces, and gives the same result for everybody. What the scripts would have done and the
images need (the byte code of Python's modules) is done here.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.places import LabError

_PACKAGES = (
    "busybox-static",
    "crun",
    "dosfstools",
    "e2fsprogs",
    "fdisk",
    "hdparm",
    "iproute2",
    "kmod",
    "mount",
    "mtools",
    "nvme-cli",
    "openrc",
    "python3-cryptography",
    "python3-grpcio",
    "python3-minimal",
    "python3-tpm2-pytss",
    "python3-zstandard",
    "systemd-boot-efi",
    "util-linux",
)

_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/perl/*")


class ImageBuildError(LabError):
    """A tool that builds an image failed; the text holds its last words."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A distribution release that the images can be made from."""

    name: str
    kernel_package: str
    components: str = "main"

    @property
    def packages(self) -> tuple[str, ...]:
        """All packages to extract."""
        return (*_PACKAGES, self.kernel_package)


_SUITES = {
    "bookworm": Suite("bookworm", "linux-image-cloud-amd64"),
    "trixie": Suite("trixie", "linux-image-cloud-amd64"),
    "noble": Suite("noble", "linux-image-virtual", "main,universe"),
}


def host_suite(os_release: str) -> Suite:
    """The suite of the host, named by the text of its os-release(5) file; Debian 12 where it has no entry."""
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return _SUITES.get(value.strip('"'), _SUITES["bookworm"])
    return _SUITES["bookworm"]


def this_host_suite() -> Suite:
    """The suite of this host (os-release(5))."""
    return host_suite(Path("/etc/os-release").read_text(encoding="utf-8"))


def run(*command: str | Path, stdin: IO[bytes] | None = None, environment: dict[str, str] | None = None) -> bytes:
    """Run a build tool and return its output; tools of system administrators are found for everybody.

    Raises:
        ImageBuildError: it is missing or ended with a status other than 0.
    """
    arguments = [str(part) for part in command]
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    environment = {**os.environ, "PATH": path, **(environment or {})}
    program = shutil.which(arguments[0], path=path) or arguments[0]
    try:
        done = subprocess.run(
            [program, *arguments[1:]],
            stdin=stdin or subprocess.DEVNULL,
            env=environment,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ImageBuildError(f"{arguments[0]} is not installed") from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-8:]
        raise ImageBuildError(f"{' '.join(arguments[:3])} … failed ({done.returncode}): " + " | ".join(words))
    return done.stdout


def extracted_root(cache: ImageCache, suite: Suite) -> Path:
    """The folder with all packages of the suite unpacked; built (one download) when the cache has none."""
    key = content_key("packages", suite.name, suite.components, *suite.packages, *_EXCLUDED)
    return cache.get("packages", key, lambda out: _extract(suite, out))


def _extract(suite: Suite, out: Path) -> None:
    archive = out.with_name("packages.tar")
    mirror = os.environ.get("FLEET_LAB_MIRROR")
    run(
        "mmdebstrap",
        "--variant=extract",
        "--mode=chrootless",
        f"--components={suite.components}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
        f"--include={','.join(suite.packages)}",
        suite.name,
        archive,
        *([mirror] if mirror else []),
    )
    out.mkdir()
    run("tar", "-C", out, "--no-same-owner", "--exclude=./dev/*", "-xf", archive)
    archive.unlink()
    _compile_python(out)


def _compile_python(root: Path) -> None:
    library = root / "usr" / "lib"
    standard = library / python_of(root).name
    for waste in ("test", "lib2to3", "idlelib", "tkinter", "ensurepip", "distutils", "pydoc_data"):
        shutil.rmtree(standard / waste, ignore_errors=True)
    compile_python(root, [standard, library / "python3" / "dist-packages"], strip=root, prefix="/")


def python_of(root: Path) -> Path:
    """The interpreter of the extracted root, `usr/bin/python3.N`."""
    return max((root / "usr" / "bin").glob("python3.[0-9]*"), key=lambda path: path.name)


def compile_python(root: Path, folders: Iterable[Path], strip: Path, prefix: str) -> None:
    """Compile modules with the interpreter of the root itself, started through its own loader.

    Byte code names its source with `prefix` in place of `strip`, so that tracebacks name the file in the image.
    """
    loader = root / "lib64" / "ld-linux-x86-64.so.2"
    if not loader.parent.is_dir():
        loader = root / "usr" / "lib64" / "ld-linux-x86-64.so.2"
    if loader.is_symlink():
        target = str(loader.readlink())
        loader = root / target.lstrip("/") if target.startswith("/") else loader.parent / target
    places = [root / part for part in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib", "usr/lib")]
    run(
        loader,
        "--library-path",
        ":".join(str(place) for place in places if place.is_dir()),
        python_of(root),
        *("-I", "-S", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash"),
        *("-s", strip, "-p", prefix),
        *folders,
        environment={"PYTHONHOME": str(root / "usr")},
    )
