"""Compressed streams: every format, damaged and truncated, within bounded memory."""

import gzip
import io
import lzma
import random

import pytest
import zstandard

from fleet_machine.disk.decompress import CHUNK, Compression, compression_of, decompressed
from fleet_machine.disk.download import ImageError, shown

RAW = random.Random(3).randbytes(300_000) + bytes(3 << 20) + b"end"
PACKED = {
    Compression.RAW: RAW,
    Compression.ZSTD: zstandard.compress(RAW),
    Compression.GZIP: gzip.compress(RAW),
    Compression.XZ: lzma.compress(RAW),
}
COMPRESSED = [Compression.ZSTD, Compression.GZIP, Compression.XZ]


class Dribble(io.BytesIO):
    """Gives a few bytes at a time, as a slow connection does."""

    def read(self, size=-1):
        return super().read(min(size, 777) if size > 0 else 777)


def unpacked(packed, compression, source=io.BytesIO):
    return list(decompressed(source(packed), compression))


@pytest.mark.parametrize("compression", Compression)
def test_a_format_is_told_by_its_first_bytes(compression):
    assert compression_of(PACKED[compression][:16]) is compression


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("source", [io.BytesIO, Dribble])
def test_a_stream_comes_out_as_it_went_in_and_in_small_chunks(compression, source):
    chunks = unpacked(PACKED[compression], compression, source)

    assert b"".join(chunks) == RAW
    assert max(map(len, chunks)) <= CHUNK


@pytest.mark.parametrize("compression", COMPRESSED)
def test_several_members_after_each_other_are_one_stream(compression):
    assert b"".join(unpacked(PACKED[compression] * 2, compression)) == RAW * 2


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.XZ])
def test_padding_of_zeros_behind_the_data_is_passed_over(compression):
    assert b"".join(unpacked(PACKED[compression] + bytes(1024), compression)) == RAW


@pytest.mark.parametrize("compression", COMPRESSED)
def test_damaged_data_is_an_error_or_other_bytes_but_never_a_crash(compression):
    rng = random.Random(5)
    for _ in range(20):
        packed = bytearray(PACKED[compression])
        packed[rng.randrange(20, len(packed))] ^= 1 << rng.randrange(8)
        try:
            unpacked(bytes(packed), compression)
        except ImageError:
            continue


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.XZ])
@pytest.mark.parametrize("cut", [1, 100, 200_000])
def test_truncated_data_is_an_error(compression, cut):
    with pytest.raises(ImageError):
        unpacked(PACKED[compression][:-cut], compression)


def test_a_zstd_frame_that_wants_more_memory_than_allowed_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = compressor.compress(bytes(1000)) + compressor.flush()

    with pytest.raises(ImageError):
        unpacked(packed, Compression.ZSTD)


def test_an_address_is_shown_without_its_secrets():
    assert shown("https://user:word@host/image?token=1") == "https://host/image"
