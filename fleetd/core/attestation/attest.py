"""TPMS_ATTEST and TPMT_SIGNATURE: what a TPM signs, and how.

Sources: TPM 2.0 Part 2, 10.12 (attestation structures), 10.6.2 (TPML_PCR_SELECTION), 11.3 (signatures). Parsing is
strict: exact lengths, no trailing bytes, no algorithm that is not understood.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from fleetd.core.attestation.banks import BANK_OF, PCR_COUNT, Bank, PcrSelection
from fleetd.core.attestation.structures import MalformedStructure

TPM_GENERATED: Final = 0xFF544347
ATTEST_CERTIFY: Final = 0x8017
ATTEST_QUOTE: Final = 0x8018

MAX_ATTEST: Final = 2048
MAX_SIGNATURE: Final = 1100

_HEAD = struct.Struct(">IH")
_CLOCK = struct.Struct(">QIIBQ")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")

_RSASSA, _RSAPSS, _ECDSA = 0x0014, 0x0016, 0x0018


class TpmClock(NamedTuple):
    """TPMS_CLOCK_INFO: milliseconds since the last TPM2_Clear, and how often the TPM was reset and restarted."""

    clock: int
    reset_count: int
    restart_count: int
    safe: bool
    """False when the clock may have been set back by an unclean loss of power."""


class Attest(NamedTuple):
    """What every attestation has; `kind` is the TPMI_ST_ATTEST, `body` the bytes that depend on it."""

    magic: int
    kind: int
    qualified_signer: bytes
    extra_data: bytes
    clock: TpmClock
    firmware_version: int
    body: bytes


class QuoteInfo(NamedTuple):
    """TPMS_QUOTE_INFO."""

    selection: PcrSelection
    pcr_digest: bytes


@dataclass(frozen=True, slots=True)
class CertifyInfo:
    """TPMS_CERTIFY_INFO: the Name and the Qualified Name of the certified object."""

    name: bytes
    qualified_name: bytes


class Scheme(StrEnum):
    """Signature schemes that are understood."""

    RSASSA = "rsassa"
    RSAPSS = "rsapss"
    ECDSA = "ecdsa"


class Signature(NamedTuple):
    """TPMT_SIGNATURE; `value` of an RSA scheme, `r` and `s` of ECDSA."""

    scheme: Scheme
    hash: Bank
    value: bytes = b""
    r: int = 0
    s: int = 0


def parse_attest(raw: bytes) -> Attest:
    """Read the part that all attestations share; magic and type are reported, not judged.

    Raises MalformedStructure when the bytes end early or are more than a TPM can send.
    """
    if len(raw) > MAX_ATTEST:
        raise MalformedStructure(f"the attestation has {len(raw)} bytes, more than {MAX_ATTEST}")
    try:
        magic, kind = _HEAD.unpack_from(raw)
        signer, offset = _sized(raw, _HEAD.size)
        extra, offset = _sized(raw, offset)
        clock, resets, restarts, safe, firmware = _CLOCK.unpack_from(raw, offset)
    except struct.error as error:
        raise MalformedStructure("the attestation is truncated") from error
    if safe > 1:
        raise MalformedStructure("the attestation's clock is neither safe nor unsafe")
    offset += _CLOCK.size
    return Attest(magic, kind, signer, extra, TpmClock(clock, resets, restarts, safe == 1), firmware, raw[offset:])


def parse_quote_info(body: bytes) -> QuoteInfo:
    """Read TPMS_QUOTE_INFO to its last byte.

    Raises MalformedStructure for unknown or repeated banks, PCRs above 23, truncation and trailing bytes.
    """
    try:
        selection, offset = _selection(body)
        digest, offset = _sized(body, offset)
    except struct.error as error:
        raise MalformedStructure("the quote is truncated") from error
    if offset != len(body):
        raise MalformedStructure(f"{len(body) - offset} bytes follow the quote")
    return QuoteInfo(selection, digest)


def parse_certify_info(body: bytes) -> CertifyInfo:
    """Read TPMS_CERTIFY_INFO to its last byte. Raises MalformedStructure."""
    try:
        name, offset = _sized(body, 0)
        qualified, offset = _sized(body, offset)
    except struct.error as error:
        raise MalformedStructure("the certification is truncated") from error
    if offset != len(body):
        raise MalformedStructure(f"{len(body) - offset} bytes follow the certification")
    return CertifyInfo(name, qualified)


def parse_signature(raw: bytes) -> Signature:
    """Read a TPMT_SIGNATURE to its last byte.

    Raises MalformedStructure for other schemes than RSASSA, RSAPSS and ECDSA, unknown hashes, and wrong lengths.
    """
    if len(raw) > MAX_SIGNATURE:
        raise MalformedStructure(f"the signature has {len(raw)} bytes, more than {MAX_SIGNATURE}")
    try:
        scheme, algorithm = struct.unpack_from(">HH", raw)
        hashed = BANK_OF.get(algorithm)
        if hashed is None:
            raise MalformedStructure(f"the signature's hash 0x{algorithm:04x} is not known")
        if scheme == _ECDSA:
            r, offset = _sized(raw, 4)
            s, offset = _sized(raw, offset)
            parsed = Signature(Scheme.ECDSA, hashed, r=int.from_bytes(r), s=int.from_bytes(s))
        elif scheme in {_RSASSA, _RSAPSS}:
            value, offset = _sized(raw, 4)
            parsed = Signature(Scheme.RSASSA if scheme == _RSASSA else Scheme.RSAPSS, hashed, value)
        else:
            raise MalformedStructure(f"the signature scheme 0x{scheme:04x} is not known")
    except struct.error as error:
        raise MalformedStructure("the signature is truncated") from error
    if offset != len(raw):
        raise MalformedStructure(f"{len(raw) - offset} bytes follow the signature")
    return parsed


def _sized(raw: bytes, offset: int) -> tuple[bytes, int]:
    """Read a TPM2B: raises struct.error when its size does not fit."""
    (size,) = _U16.unpack_from(raw, offset)
    start = offset + 2
    end = start + size
    if end > len(raw):
        raise struct.error("sized buffer runs past the end")
    return raw[start:end], end


def _selection(raw: bytes) -> tuple[PcrSelection, int]:
    """Read the TPML_PCR_SELECTION at the beginning; whoever reads what follows it finds out that one runs past the end."""
    (count,) = _U32.unpack_from(raw)
    offset = 4
    banks: list[tuple[Bank, tuple[int, ...]]] = []
    for _ in range(count):
        algorithm, size = struct.unpack_from(">HB", raw, offset)
        start, offset = offset + 3, offset + 3 + size
        bank = BANK_OF.get(algorithm)
        if bank is None or (banks and any(bank is earlier for earlier, _ in banks)):
            raise MalformedStructure(f"the PCR selection has an unknown or repeated bank 0x{algorithm:04x}")
        banks.append((bank, _indexes(raw[start:offset])))
    return PcrSelection(tuple(banks)), offset


@lru_cache(maxsize=256)
def _indexes(bitmap: bytes) -> tuple[int, ...]:
    bits = int.from_bytes(bitmap, "little")
    if bits >> PCR_COUNT:
        raise MalformedStructure("the PCR selection names a PCR above 23")
    return tuple(index for index in range(PCR_COUNT) if bits >> index & 1)
