"""Which keys a path may end at: manufacturers' roots that are pinned, and roots that the owner added.

A pin is the SHA-256 of a certificate or of its SubjectPublicKeyInfo; the second one holds for every certificate of that
key. Only certificates that are at hand can be used: a pin alone is a name, not a key.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from fleetd.core.attestation.certificate import Certificate, DistinguishedName
from fleetd.core.attestation.revocation import RevocationList


class Origin(StrEnum):
    """Whose word a trusted key is."""

    MANUFACTURER = "manufacturer"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Pin:
    """A manufacturer's root as the project knows it."""

    manufacturer: str
    name: str
    certificate: str
    """SHA-256 of the DER, lower-case hex."""
    spki: str
    """SHA-256 of the SubjectPublicKeyInfo, lower-case hex."""


@dataclass(frozen=True)
class TrustStore:
    """Certificates at hand: `trusted` may end a path, `links` only connect."""

    trusted: dict[str, Origin]
    """Origin by SPKI fingerprint."""
    certificates: tuple[Certificate, ...]
    lists: tuple[RevocationList, ...] = ()
    _by_key: dict[bytes, list[Certificate]] = field(default_factory=dict)
    _by_name: dict[tuple[object, ...], list[Certificate]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        manufacturers: Iterable[Certificate] = (),
        owners: Iterable[Certificate] = (),
        links: Iterable[Certificate] = (),
        lists: Iterable[RevocationList] = (),
    ) -> "TrustStore":
        """Return a store; `manufacturers` are certificates whose pin was checked."""
        pinned, own = tuple(manufacturers), tuple(owners)
        trusted = {certificate.spki_fingerprint: Origin.OWNER for certificate in own}
        trusted |= {certificate.spki_fingerprint: Origin.MANUFACTURER for certificate in pinned}
        store = cls(trusted, (*pinned, *own, *links), tuple(lists))
        for certificate in store.certificates:
            if certificate.subject_key_id:
                store._by_key.setdefault(certificate.subject_key_id, []).append(certificate)
            store._by_name.setdefault(certificate.subject.folded, []).append(certificate)
        return store

    def issuers(self, certificate: Certificate, sent: tuple[Certificate, ...] = ()) -> list[Certificate]:
        """Return who may have issued it, by key identifier first, then by name; each once, trusted ones first."""
        found = list(self._by_key.get(certificate.authority_key_id or b"", ()))
        found += self._by_name.get(certificate.issuer.folded, ())
        found += [other for other in sent if _may_have_issued(other, certificate)]
        unique = {other.fingerprint: other for other in found}
        return sorted(unique.values(), key=lambda other: other.spki_fingerprint not in self.trusted)

    def lists_of(self, issuer: DistinguishedName) -> tuple[RevocationList, ...]:
        """Return the owner's revocation lists of an issuer."""
        return tuple(listed for listed in self.lists if listed.issuer.folded == issuer.folded)


def admitted(certificates: Iterable[Certificate], pins: Iterable[Pin]) -> tuple[list[Certificate], list[Certificate]]:
    """Split certificates into those whose certificate or key is pinned, and the rest."""
    known = list(pins)
    by_certificate, by_key = {pin.certificate for pin in known}, {pin.spki for pin in known}
    pinned: list[Certificate] = []
    rest: list[Certificate] = []
    for certificate in certificates:
        good = certificate.fingerprint in by_certificate or certificate.spki_fingerprint in by_key
        (pinned if good else rest).append(certificate)
    return pinned, rest


def _may_have_issued(issuer: Certificate, certificate: Certificate) -> bool:
    if certificate.authority_key_id and issuer.subject_key_id:
        return certificate.authority_key_id == issuer.subject_key_id
    return issuer.subject.folded == certificate.issuer.folded
