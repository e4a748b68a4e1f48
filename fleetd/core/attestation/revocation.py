"""Certificate revocation lists that the owner supplies (RFC 5280, 5)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fleetd.core.attestation import der
from fleetd.core.attestation.certificate import DistinguishedName, parse_algorithm, parse_name, parse_time
from fleetd.core.attestation.structures import MalformedStructure

MAX_LIST: Final = 4 << 20
"""Bytes of the longest list that is read; the largest known one of a TPM manufacturer is under 1 MiB."""


@dataclass(frozen=True)
class RevocationList:
    """One CRL; its signature is checked by the chain's rules against the issuer it names."""

    tbs: bytes
    issuer: DistinguishedName
    this_update: datetime
    next_update: datetime | None
    revoked: frozenset[bytes]
    """Serial numbers as they stand, without leading zeros."""
    signature_algorithm: str
    signature_parameters: bytes
    signature: bytes

    def lists(self, serial: bytes) -> bool:
        """Tell whether the serial number is on the list."""
        return serial.lstrip(b"\0") in self.revoked


def parse_revocation_list(raw: bytes) -> RevocationList:
    """Parse the DER of a CRL. Raises MalformedStructure."""
    if len(raw) > MAX_LIST:
        raise MalformedStructure(f"a revocation list of {len(raw)} bytes")
    parts = der.only_element(raw, der.SEQUENCE, "the revocation list").children()
    if len(parts) != 3:
        raise MalformedStructure("a revocation list of odd shape")
    tbs, algorithm, signature = parts
    fields = tbs.expect(der.SEQUENCE, "the list's body").children()
    if fields and fields[0].tag == der.INTEGER:
        fields = fields[1:]
    if len(fields) < 3:
        raise MalformedStructure("a list with too few fields")
    issuer, this_update, rest = parse_name(fields[1]), parse_time(fields[2]), fields[3:]
    next_update = None
    if rest and rest[0].tag in {der.UTC_TIME, der.GENERALIZED_TIME}:
        next_update, rest = parse_time(rest[0]), rest[1:]
    revoked: frozenset[bytes] = frozenset()
    if rest and rest[0].tag == der.SEQUENCE:
        revoked = frozenset(
            entry.children()[0].expect(der.INTEGER, "a serial").content.lstrip(b"\0")
            for entry in rest[0].children()
            if entry.content
        )
    name, parameters = parse_algorithm(algorithm)
    bits = signature.expect(der.BIT_STRING, "the signature").content
    return RevocationList(tbs.whole, issuer, this_update, next_update, revoked, name, parameters, bits[1:])
