"""A unified kernel image: kernel, initrd and a fixed command line behind systemd's stub, as one measured PE image."""

import struct
from dataclasses import dataclass
from pathlib import Path

from fleet_lab.images.authenticode import authenticode_sha256
from fleet_lab.images.packages import ImageBuildError, run

_STUB = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
_PAGE = 0x1000


@dataclass(frozen=True, slots=True)
class MeasuredImage:
    """A UKI and what a policy must allow for it."""

    uki: Path
    kernel: Path

    @property
    def allow(self) -> tuple[str, ...]:
        """Authenticode SHA-256 digests, hex, of the events that PCR4 gets: the UKI and the kernel inside it."""
        return tuple(authenticode_sha256(path.read_bytes()) for path in (self.uki, self.kernel))


def build_uki(root: Path, kernel: Path, initrd: Path, command_line: str, os_release: str, out: Path) -> None:
    """Write a UKI to `out`, made of systemd's stub from the extracted root.

    Raises:
        ImageBuildError: the stub is missing or objcopy failed.
    """
    stub = next(
        (path for path in (root / _STUB, root / "lib/systemd/boot/efi/linuxx64.efi.stub") if path.exists()), None
    )
    if stub is None:
        raise ImageBuildError("the packages hold no stub: systemd-boot-efi is missing")
    texts = {".osrel": os_release.encode(), ".cmdline": command_line.encode() + b"\0"}
    parts: list[tuple[str, Path]] = []
    for name, content in texts.items():
        path = out.with_name(name.removeprefix("."))
        path.write_bytes(content)
        parts.append((name, path))
    # The kernel is last: the stub may unpack it in place, past its own end.
    parts += [(".initrd", initrd), (".linux", kernel)]
    arguments: list[str] = []
    base, address = _first_free(stub.read_bytes())
    for name, path in parts:
        arguments += ["--add-section", f"{name}={path}", "--change-section-vma", f"{name}={base + address:#x}"]
        address = _aligned(address + path.stat().st_size)
    run("objcopy", *arguments, stub, out)
    for name in texts:
        out.with_name(name.removeprefix(".")).unlink()


def _aligned(address: int) -> int:
    return -(-address // _PAGE) * _PAGE


def _first_free(stub: bytes) -> tuple[int, int]:
    """Image base and the first address behind the stub's own sections."""
    (pe,) = struct.unpack_from("<I", stub, 0x3C)
    count, optional_size = struct.unpack_from("<H12xH", stub, pe + 6)
    (base,) = struct.unpack_from("<Q", stub, pe + 24 + 24)
    end = 0
    for index in range(count):
        size, address = struct.unpack_from("<II", stub, pe + 24 + optional_size + 40 * index + 8)
        end = max(end, address + size)
    return base, _aligned(end)
