"""UEFI variables and signature lists as an event log carries them.

Sources: TCG PC Client Platform Firmware Profile 1.06, 10.2.6 (UEFI_VARIABLE_DATA); UEFI 2.10, 32.4.1 (EFI_SIGNATURE_LIST).
"""

import hashlib
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from fleetd.core.attestation.structures import MalformedStructure

EFI_GLOBAL: Final = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
IMAGE_SECURITY: Final = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
SHIM: Final = UUID("605dab50-e046-4300-abb6-3dd810dd8b23")

_MAX_SLACK = 8
"""shim before 15.6 logged the size of its structure with padding: up to this many stray bytes follow the value."""

_HEAD = struct.Struct("<16sQQ")
_LIST = struct.Struct("<16sIII")


class SignatureKind(StrEnum):
    """What one entry of a signature list identifies."""

    CERTIFICATE = "certificate"
    IMAGE_DIGEST = "image digest"
    CERTIFICATE_DIGEST = "certificate digest"
    OTHER = "other"


_KINDS: Final = {
    UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072"): SignatureKind.CERTIFICATE,
    UUID("c1c41626-504c-4092-aca9-41f936934328"): SignatureKind.IMAGE_DIGEST,
    UUID("ff3e5307-9fd0-48c9-85f1-8ad56c701e01"): SignatureKind.IMAGE_DIGEST,
    UUID("093e0fae-a6c4-4f50-9f1b-d41e2b89c19a"): SignatureKind.IMAGE_DIGEST,
    UUID("826ca512-cf10-4ac9-b187-be01496631bd"): SignatureKind.IMAGE_DIGEST,
    UUID("3bd2a492-96c0-4079-b420-fcf98ef103ed"): SignatureKind.CERTIFICATE_DIGEST,
    UUID("7076876e-80c2-4ee6-aad2-28b349a6865b"): SignatureKind.CERTIFICATE_DIGEST,
    UUID("446dbf63-2502-4cda-bcfa-2465d2b0fe9d"): SignatureKind.CERTIFICATE_DIGEST,
}


@dataclass(frozen=True, slots=True)
class UefiVariable:
    """A variable as it was measured."""

    vendor: UUID
    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """One entry of db, dbx, KEK or PK."""

    kind: SignatureKind
    owner: UUID
    data: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the entry's data, in hexadecimal; of a certificate, its usual fingerprint."""
        return hashlib.sha256(self.data).hexdigest()


def parse_variable(data: bytes) -> UefiVariable:
    """Read a UEFI_VARIABLE_DATA.

    Raises MalformedStructure when lengths contradict the bytes or the name is not UTF-16.
    """
    if len(data) < _HEAD.size:
        raise MalformedStructure(f"{len(data)} bytes are too few for a UEFI variable")
    vendor, characters, size = _HEAD.unpack_from(data)
    if characters > len(data) or size > len(data):
        raise MalformedStructure("the UEFI variable is longer than its event")
    start = _HEAD.size + 2 * characters
    slack = len(data) - start - size
    if not 0 <= slack <= _MAX_SLACK:
        raise MalformedStructure("the UEFI variable does not end where its event ends")
    try:
        name = data[_HEAD.size : start].decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise MalformedStructure("the UEFI variable's name is not UTF-16") from error
    return UefiVariable(UUID(bytes_le=vendor), name, data[start : start + size])


def parse_signatures(value: bytes) -> tuple[Signature, ...]:
    """Read the value of db, dbx, KEK or PK: any number of EFI_SIGNATURE_LISTs.

    Raises MalformedStructure when a list's sizes contradict each other or the bytes.
    """
    found: list[Signature] = []
    offset = 0
    while offset < len(value):
        if len(value) - offset < _LIST.size:
            raise MalformedStructure("a signature list is truncated")
        kind_bytes, list_size, header_size, entry_size = _LIST.unpack_from(value, offset)
        body = list_size - _LIST.size - header_size
        if list_size > len(value) - offset or body < 0 or entry_size <= 16 or body % entry_size:
            raise MalformedStructure("a signature list's sizes contradict each other")
        kind = _KINDS.get(UUID(bytes_le=kind_bytes), SignatureKind.OTHER)
        first = offset + _LIST.size + header_size
        for entry in range(first, offset + list_size, entry_size):
            owner = UUID(bytes_le=value[entry : entry + 16])
            found.append(Signature(kind, owner, value[entry + 16 : entry + entry_size]))
        offset += list_size
    return tuple(found)


def authority_of(variable: UefiVariable) -> bytes | None:
    """Return the certificate (DER) that a measured authority names, or None when it names none.

    The value is an EFI_SIGNATURE_DATA: an owner's GUID, then the certificate. Old versions of shim left the GUID out.
    """
    value = variable.value
    for start in (16, 0):
        if len(value) > start + 4 and value[start] == 0x30 and value[start + 1] == 0x82:
            length = 4 + int.from_bytes(value[start + 2 : start + 4], "big")
            if start + length == len(value):
                return value[start:]
    return None
