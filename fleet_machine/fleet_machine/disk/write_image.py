"""Writing an image to the declared disk, so that nothing half-written or wrong can ever boot.

The first MiB, which holds the partition table, is held back until length, hashes, signature and samples are right.
"""

import base64
import binascii
import os
import random
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fleet_machine.clock import Clock
from fleet_machine.disk.commands import DiskCommands
from fleet_machine.disk.decompress import compression_of, decompressed
from fleet_machine.disk.download import AHEAD, Download, ImageError, ReadAhead
from fleet_machine.disk.gpt import clear_table, relocate_backup, write_all
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.partitions import read_partitions
from fleet_machine.disk.samples import PLACE_SIZE, Place, is_zero
from fleet_machine.disk.source import OpenedDisk

HELD_BACK = 1 << 20
BLOCK = 1 << 20
SYNC_EVERY = 256 << 20
PLACES = 1024
SIGNATURE_SIZE = 64


@dataclass(frozen=True, slots=True)
class ImageWanted:
    """The image that the class declares: where it is, and what its raw bytes must be."""

    url: str
    sha256: str
    size: int
    key: str = ""
    """Ed25519 public key in base64; then `URL.sig` must hold a signature of the 32 bytes of the SHA-256."""
    ca: str = ""


@dataclass(slots=True)
class ImageWriter:
    """Writes one image to one open disk."""

    opened: OpenedDisk
    wanted: ImageWanted
    commands: DiskCommands
    clock: Clock
    pace: Pace
    rng: random.Random
    disk_is_zero: bool
    """Whether the disk is known to read as zeros, so that holes of the image need no writing."""
    _held: bytes = field(default=b"", init=False)
    _written: int = field(default=0, init=False)
    _unsynced: int = field(default=0, init=False)
    _samples: dict[Place, bytes] = field(default_factory=dict, init=False)

    def run(self) -> dict[str, Any]:
        """Write and verify; return the evidence.

        Raises ImageError, OutsideError or OSError, each with the partition table cleared.
        """
        fd, size = self.opened.fd, self.opened.disk.size
        if self.wanted.size > size:
            raise ImageError(f"The image has {self.wanted.size} bytes, more than the disk's {size}.")
        clear_table(fd, size)
        try:
            evidence = self._write_and_verify()
            self._let_boot()
        except BaseException:
            clear_table(fd, size)
            self.commands.forget_cache(fd)
            raise
        return evidence

    def _write_and_verify(self) -> dict[str, Any]:
        download = Download(self.wanted.url, self.clock, lambda text: self.pace.tell(None, text), self.wanted.ca)
        source = ReadAhead(download)
        raw = HashAside()
        try:
            compression = compression_of(source.peek())
            for block in _blocks(decompressed(source, compression)):
                if self._written + len(block) > self.wanted.size:
                    raise ImageError(f"The image is longer than the declared {self.wanted.size} bytes.")
                raw.update(block)
                self._take(block)
                self.pace.report(self._written, self.wanted.size, "The image is being written.")
            while source.read():
                pass
        finally:
            source.close()
            raw_digest = raw.finish()
        if self._written != self.wanted.size:
            raise ImageError(f"The image has {self._written} bytes; declared are {self.wanted.size}.")
        if raw_digest.hex() != self.wanted.sha256.lower():
            raise ImageError("The image's SHA-256 is not the declared one.")
        if self.wanted.key:
            self._check_signature(raw_digest)
        self._read_back()
        return {
            "sha256": raw_digest.hex(),
            "bytes": self._written,
            "compressed_sha256": source.hexdigest(),
            "samples": len(self._samples),
            "compression": compression.value,
        }

    def _take(self, block: bytes) -> None:
        """Write a block, or hold it back, or leave a hole; remember what a random place of it holds."""
        offset = self._written
        self._written += len(block)
        if offset < HELD_BACK:
            self._held += block
            return
        if is_zero(block):
            self._hole(offset, len(block))
        else:
            write_all(self.opened.fd, block, offset)
            self._unsynced += len(block)
        self._sample(block, offset)
        if self._unsynced >= SYNC_EVERY:
            # Steady write-out: otherwise the kernel gathers gigabytes and the progress shown is a lie.
            os.fdatasync(self.opened.fd)
            os.posix_fadvise(self.opened.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            self._unsynced = 0

    def _hole(self, offset: int, length: int) -> None:
        if self.disk_is_zero:
            return
        try:
            self.commands.zero_out(self.opened.fd, offset, length)
        except OSError:
            write_all(self.opened.fd, bytes(length), offset)

    def _sample(self, block: bytes, offset: int) -> None:
        """Remember random places of a block, so many that about 1,024 come together over the image."""
        due = PLACES * len(block) / self.wanted.size
        count = int(due) + (self.rng.random() < due % 1)
        for _ in range(count):
            at = self.rng.randrange(max(1, len(block) // PLACE_SIZE)) * PLACE_SIZE
            content = block[at : at + PLACE_SIZE]
            self._samples[Place(offset + at, len(content))] = sha256(content).digest()

    def _read_back(self) -> None:
        self.commands.forget_cache(self.opened.fd)
        for place, digest in self._samples.items():
            content = os.pread(self.opened.fd, place.length, place.offset)
            if sha256(content).digest() != digest:
                raise ImageError(f"The disk does not read back what was written at byte {place.offset}: it is faulty.")

    def _check_signature(self, digest: bytes) -> None:
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.wanted.key, validate=True))
        except (ValueError, binascii.Error) as error:
            raise ImageError("The class's image key is no Ed25519 public key in base64.") from error
        download = Download(
            f"{self.wanted.url}.sig", self.clock, lambda text: self.pace.tell(None, text), self.wanted.ca
        )
        content = b""
        for chunk in download.chunks():
            content += chunk
            if len(content) > 4096:
                break
        try:
            key.verify(_signature(content), digest)
        except (InvalidSignature, ValueError) as error:
            raise ImageError("The image's signature is not by the class's key.") from error

    def _let_boot(self) -> None:
        """Write what was held back, the partition table last, and make it fit the disk."""
        fd, disk = self.opened.fd, self.opened.disk
        first = min(4096, len(self._held))
        write_all(fd, self._held[first:], first)
        os.fsync(fd)
        write_all(fd, self._held[:first], 0)
        os.fsync(fd)
        if relocate_backup(fd, disk):
            read_partitions(fd, disk)
        self.commands.forget_cache(fd)
        if self._head_differs():
            raise ImageError("The disk does not read back the beginning of the image: it is faulty.")
        try:
            self.commands.reread_partitions(fd)
        except OSError:
            self.pace.tell(None, "The kernel keeps the old partition table until the reboot.")

    def _head_differs(self) -> bool:
        """Compare the first MiB, except MBR and GPT header, which were fitted to the disk."""
        skip = 2 * self.opened.disk.sector_size
        return os.pread(self.opened.fd, len(self._held), 0)[skip:] != self._held[skip:]


class HashAside:
    """SHA-256 in a thread of its own, so that hashing and writing take place at the same time."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._digest = sha256()
        self._worker = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()

    def update(self, block: bytes) -> None:
        """Hash a block, in order; waits when more than a few are behind."""
        self._pending.append(self._worker.submit(self._digest.update, block))
        if len(self._pending) > AHEAD:
            self._pending.popleft().result()

    def finish(self) -> bytes:
        """Wait for the rest and return the digest."""
        self._worker.shutdown()
        return self._digest.digest()


def _blocks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Regroup chunks of any size into blocks of a MiB; the last may be shorter."""
    gathered = bytearray()
    for chunk in chunks:
        if not gathered and len(chunk) == BLOCK:
            yield chunk
            continue
        gathered += chunk
        while len(gathered) >= BLOCK:
            yield bytes(gathered[:BLOCK])
            del gathered[:BLOCK]
    if gathered:
        yield bytes(gathered)


def _signature(content: bytes) -> bytes:
    if len(content) == SIGNATURE_SIZE:
        return content
    return base64.b64decode(content.strip(), validate=True)
