"""Where a measured image came from, as its event says. No digest covers this: it is a hint for people.

Sources: TCG PC Client Platform Firmware Profile 1.06, 10.2.3 (UEFI_IMAGE_LOAD_EVENT); UEFI 2.10, chapter 10 (device paths).
"""

import struct
from uuid import UUID

from fleetd.core.attestation.eventlog.text import one_line

_IMAGE_LOAD = struct.Struct("<QQQQ")
_MAX_NODES = 64


def image_source(data: bytes) -> str | None:
    """Return a readable form of an image's device path, or None when there is none to read."""
    if len(data) < _IMAGE_LOAD.size:
        return None
    length = _IMAGE_LOAD.unpack_from(data)[3]
    path = data[_IMAGE_LOAD.size :]
    if length != len(path):
        path = path[: min(length, len(path))]
    nodes: list[str] = []
    offset = 0
    for _ in range(_MAX_NODES):
        if offset + 4 > len(path):
            break
        kind, subkind, size = struct.unpack_from("<BBH", path, offset)
        if size < 4 or offset + size > len(path) or kind == 0x7F:
            break
        shown = _node(kind, subkind, path[offset + 4 : offset + size])
        if shown:
            nodes.append(shown)
        offset += size
    return one_line("/".join(nodes)) or None


def _node(kind: int, subkind: int, body: bytes) -> str | None:
    if kind == 0x04 and subkind == 0x04:
        return body.decode("utf-16-le", "replace").rstrip("\x00").replace("\\", "/").strip("/")
    if kind == 0x04 and subkind in {0x06, 0x07} and len(body) >= 16:
        return f"{'file' if subkind == 0x06 else 'volume'} {UUID(bytes_le=body[:16])}"
    if kind == 0x03 and subkind == 0x18:
        return body.decode("ascii", "replace") or "http"
    names = {(0x03, 0x0B): "network", (0x03, 0x0C): "ipv4", (0x03, 0x0D): "ipv6", (0x03, 0x17): "nvme"}
    return names.get((kind, subkind))
