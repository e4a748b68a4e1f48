"""Talos's META partition: a block of tags that stands twice, and the code that its configuration is fetched with."""

import struct
from hashlib import sha256

from fleet_machine.failure import FleetError

BLOCK = 256 * 1024
MAGIC_START, MAGIC_END = 0x5A4B3C2D, 0xA5B4C3D2
DOWNLOAD_CODE = 11
"""The tag whose value stands for `${code}` in the configuration's address."""
BOOT_LOADER = 17
"""The tag of a disk image's boot loader, which Talos wipes at its first boot."""
DIGEST_AT = BLOCK - 0x24


def encode(tags: dict[int, bytes]) -> bytes:
    """Return one block. Raises FleetError when the values do not fit."""
    body = struct.pack(">I", MAGIC_START)
    for tag, value in sorted(tags.items()):
        body += struct.pack(">II", tag, len(value)) + value
    if len(body) > DIGEST_AT - 8:
        raise FleetError("The values do not fit into Talos's META block.")
    block = bytearray(body.ljust(DIGEST_AT, b"\0") + bytes(32) + struct.pack(">I", MAGIC_END))
    block[DIGEST_AT : DIGEST_AT + 32] = sha256(bytes(block)).digest()
    return bytes(block)


def decode(block: bytes) -> dict[int, bytes] | None:
    """Return the tags of one block; None when it is no block or damaged."""
    if len(block) != BLOCK or block[:4] != struct.pack(">I", MAGIC_START):
        return None
    zeroed = block[:DIGEST_AT] + bytes(32) + block[DIGEST_AT + 32 :]
    if block[-4:] != struct.pack(">I", MAGIC_END) or sha256(zeroed).digest() != block[DIGEST_AT : DIGEST_AT + 32]:
        return None
    tags: dict[int, bytes] = {}
    at = 4
    while at + 8 <= DIGEST_AT:
        tag, size = struct.unpack_from(">II", block, at)
        if tag == 0:
            break
        if at + 8 + size > DIGEST_AT:
            return None
        tags[tag] = block[at + 8 : at + 8 + size]
        at += 8 + size
    return tags


def with_code(partition: bytes, code: str) -> bytes:
    """Return both blocks of a META partition with the code set; what other tags it holds stays.

    `partition` is its first 512 KiB. What stands behind (a legacy block at its end) is not touched.
    """
    tags = decode(partition[:BLOCK])
    if tags is None:
        tags = decode(partition[BLOCK : 2 * BLOCK])
    return encode({**(tags or {}), DOWNLOAD_CODE: code.encode("ascii")}) * 2
