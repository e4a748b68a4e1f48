"""The event log that firmware would write, for a machine without firmware: what a boot measures, and where.

Format: TCG PC Client Platform Firmware Profile, section 10 (crypto-agile, SHA-256 only).
"""

import hashlib
import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

_SHA256 = 0x000B
_GLOBAL = uuid.UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
_IMAGE_SECURITY = uuid.UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
# End Entire Hardware Device Path (UEFI specification, section 10.3.1).
_NO_DEVICE_PATH = b"\x7f\xff\x04\x00"


class EventType(IntEnum):
    """The types that a boot of these machines needs (table 27)."""

    NO_ACTION = 0x03
    SEPARATOR = 0x04
    S_CRTM_VERSION = 0x08
    VARIABLE_DRIVER_CONFIG = 0x80000001
    BOOT_SERVICES_APPLICATION = 0x80000003
    ACTION = 0x80000007


@dataclass(frozen=True, slots=True)
class Measurement:
    """One event: extend `digest` (SHA-256) into `pcr`."""

    pcr: int
    kind: EventType
    digest: bytes
    data: bytes


def boot_measurements(firmware: str, images: Iterable[str]) -> tuple[Measurement, ...]:
    """What a boot with Secure Boot off measures: the firmware's version, its variables, and the started images.

    `images` are Authenticode SHA-256 digests in hex, in order of start.
    """
    return (
        _of_data(0, EventType.S_CRTM_VERSION, firmware.encode("utf-16-le") + b"\0\0"),
        *_secure_boot_variables(),
        _of_data(4, EventType.ACTION, b"Calling EFI Application from Boot Option"),
        *(_of_data(pcr, EventType.SEPARATOR, bytes(4)) for pcr in range(8)),
        *(_image(bytes.fromhex(digest)) for digest in images),
    )


def event_log(measurements: Iterable[Measurement]) -> bytes:
    """The log as securityfs shows it."""
    spec_id = struct.pack("<16sIBBBBIHHB", b"Spec ID Event03", 0, 0, 2, 0, 2, 1, _SHA256, 32, 0)
    log = struct.pack("<II20sI", 0, EventType.NO_ACTION, bytes(20), len(spec_id)) + spec_id
    for event in measurements:
        log += struct.pack("<IIIH", event.pcr, event.kind, 1, _SHA256) + event.digest
        log += struct.pack("<I", len(event.data)) + event.data
    return log


def _of_data(pcr: int, kind: EventType, data: bytes) -> Measurement:
    return Measurement(pcr, kind, hashlib.sha256(data).digest(), data)


def _secure_boot_variables() -> Iterator[Measurement]:
    variables = [(_GLOBAL, "SecureBoot", b"\0"), (_GLOBAL, "PK", b""), (_GLOBAL, "KEK", b"")]
    variables += [(_IMAGE_SECURITY, "db", b""), (_IMAGE_SECURITY, "dbx", b"")]
    for guid, name, value in variables:
        head = guid.bytes_le + struct.pack("<QQ", len(name), len(value))
        yield _of_data(7, EventType.VARIABLE_DRIVER_CONFIG, head + name.encode("utf-16-le") + value)


def _image(digest: bytes) -> Measurement:
    data = struct.pack("<QQQQ", 0, 0, 0, len(_NO_DEVICE_PATH)) + _NO_DEVICE_PATH
    return Measurement(4, EventType.BOOT_SERVICES_APPLICATION, digest, data)
