"""Decompressing an image stream, its format told by magic bytes, its memory bounded."""

import lzma
import zlib
from collections.abc import Iterator
from enum import Enum
from typing import IO, Protocol, cast

import zstandard

from fleet_machine.disk.download import ImageError

CHUNK = 1 << 20
ZSTD_WINDOW = 128 << 20
"""Largest window accepted (`zstd --long=27`); the decompressor needs about as much memory."""
XZ_MEMORY = 256 << 20


class Compression(Enum):
    """Formats of an image."""

    RAW = "raw"
    ZSTD = "zstd"
    GZIP = "gzip"
    XZ = "xz"


class ByteSource(Protocol):
    """Something to read from."""

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; b"" at the end."""
        ...


def compression_of(head: bytes) -> Compression:
    """Tell the format by the first bytes."""
    if head[:4] == b"\x28\xb5\x2f\xfd" or (len(head) >= 4 and head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return Compression.ZSTD
    if head[:3] == b"\x1f\x8b\x08":
        return Compression.GZIP
    if head[:6] == b"\xfd7zXZ\0":
        return Compression.XZ
    return Compression.RAW


def decompressed(source: ByteSource, compression: Compression) -> Iterator[bytes]:
    """Yield the raw bytes in chunks of at most a MiB. Raises ImageError for damaged or truncated data."""
    try:
        if compression is Compression.ZSTD:
            yield from _zstd(source)
        elif compression is Compression.GZIP:
            yield from _gzip(source)
        elif compression is Compression.XZ:
            yield from _xz(source)
        else:
            while chunk := source.read(CHUNK):
                yield chunk
    except (zstandard.ZstdError, zlib.error, lzma.LZMAError) as error:
        raise ImageError(f"The image's {compression.value} data is damaged: {error}.") from error


def _zstd(source: ByteSource) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    with decompressor.stream_reader(
        cast("IO[bytes]", source), read_size=CHUNK, read_across_frames=True, closefd=False
    ) as reader:
        while chunk := reader.read(CHUNK):
            yield chunk


def _gzip(source: ByteSource) -> Iterator[bytes]:
    member, fed = zlib.decompressobj(31), False
    rest = b""
    while data := rest or source.read(CHUNK):
        if member.eof:
            # What follows the last member must be another one, or padding of zeros.
            data = data.lstrip(b"\0")
            if not data:
                rest = b""
                continue
            member, fed = zlib.decompressobj(31), False
        fed = True
        chunk = member.decompress(data, CHUNK)
        rest = member.unused_data if member.eof else member.unconsumed_tail
        if chunk:
            yield chunk
    while fed and not member.eof:
        chunk = member.decompress(b"", CHUNK)
        if not chunk:
            raise ImageError("The image's gzip data ends too early.")
        yield chunk


def _xz(source: ByteSource) -> Iterator[bytes]:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    data = b""
    while True:
        if stream.eof:
            data = (stream.unused_data or source.read(CHUNK)).lstrip(b"\0")
            if not data:
                return
            stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        elif stream.needs_input:
            data = source.read(CHUNK)
            if not data:
                raise ImageError("The image's xz data ends too early.")
        else:
            data = b""
        if chunk := stream.decompress(data, CHUNK):
            yield chunk
