"""The path from a certificate to a trusted key, and what speaks against it.

Source: RFC 5280, 6, without its demand that names match byte by byte: manufacturers write the same name in two ways, and
a key identifier or a folded name finds the candidates while the signature decides. The issuer and serial number of an
authority key identifier are ignored: on real chains they name an older issue of the CA.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from fleetd.core.attestation.certificate import Certificate
from fleetd.core.attestation.roots import Origin, TrustStore
from fleetd.core.attestation.x509_signature import is_signed_by, link_holds, uses_sha1, verifies
from fleetd.core.findings import Finding
from fleetd.core.findings import endorsement as found

MAX_DEPTH: Final = 6
"""Certificates of a path, the leaf included: the longest real one has five."""
MAX_STEPS: Final = 64
"""Signatures tried for one path: bounds the work that a machine can cause with the chain that it sends."""
MAX_SENT: Final = 16
"""Certificates that a machine may send along."""

SHA1_FORGEABLE: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""Chosen-prefix collisions of SHA-1 were published in January 2020; a leaf signed later with it is refused."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path that ends at a trusted key, leaf first, or the longest that was found."""

    certificates: tuple[Certificate, ...]
    origin: Origin | None
    findings: tuple[Finding, ...]

    @property
    def trusted(self) -> bool:
        """Whether it ends at a trusted key and nothing refuses it."""
        return self.origin is not None


@dataclass(slots=True)
class _Search:
    """Counts the signatures that were tried, and remembers how far a path got."""

    steps: int = 0
    best: tuple[Certificate, ...] = ()
    refusal: Finding | None = None


def find_path(leaf: Certificate, store: TrustStore, sent: tuple[Certificate, ...], now: datetime) -> Path:
    """Find a path from the leaf to a trusted key.

    `sent` is what came with the leaf: untrusted, used as links only. Always returns; without a path, `findings` says
    why in one refusing finding.
    """
    search = _Search(best=(leaf,))
    for path in _paths((leaf,), store, sent[:MAX_SENT], search):
        refusal = _revoked(path, store)
        if refusal is None:
            origin = store.trusted[path[-1].spki_fingerprint]
            return Path(path, origin, tuple(_remarks(path, store, origin, now)))
        search.refusal = refusal
    if search.refusal is not None:
        return Path(search.best, None, (search.refusal,))
    last = search.best[-1]
    return Path(search.best, None, (found.ChainIncomplete(str(last.subject), str(last.issuer)),))


def _paths(
    path: tuple[Certificate, ...], store: TrustStore, sent: tuple[Certificate, ...], search: _Search
) -> Iterator[tuple[Certificate, ...]]:
    """Yield the paths that go on from this one and end at a trusted key, depth first."""
    last = path[-1]
    if last.is_ca and last.spki_fingerprint in store.trusted:
        yield path
        return
    if len(path) > len(search.best):
        search.best = path
    if len(path) >= MAX_DEPTH:
        search.refusal = found.ChainRefused(str(last.subject), f"more than {MAX_DEPTH} certificates")
        return
    keys = {certificate.spki_fingerprint for certificate in path}
    for issuer in store.issuers(last, sent):
        if issuer.spki_fingerprint in keys:
            continue
        if search.steps >= MAX_STEPS:
            search.refusal = found.ChainRefused(
                str(last.subject), f"more than {MAX_STEPS} signatures would have to be tried"
            )
            return
        search.steps += 1
        if not (is_signed_by(last, issuer) if len(path) == 1 else link_holds(last, issuer)):
            continue
        problem = _unfit(issuer, len(path) - 1) or _unfit_link(path)
        if problem:
            search.refusal = found.ChainRefused(str(issuer.subject), problem)
            continue
        yield from _paths((*path, issuer), store, sent, search)


def _unfit(issuer: Certificate, below: int) -> str:
    """Say why an issuer whose signature holds may not stand above `below` CAs of the path; empty when it may."""
    if not issuer.signs_certificates:
        return "it is no CA, and signed a certificate"
    if issuer.path_length is not None and below > issuer.path_length:
        return f"{below} CAs stand below it, and it allows {issuer.path_length}"
    if issuer.unknown_critical:
        return f"it has critical extensions that are not understood: {', '.join(issuer.unknown_critical)}"
    key = issuer.public_key
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < 2048:
            return f"its key has {key.key_size} bits"
        if key.public_numbers().e < 65537:
            return f"its RSA exponent is {key.public_numbers().e}"
    return ""


def _unfit_link(path: tuple[Certificate, ...]) -> str:
    leaf = path[0]
    if len(path) == 1 and uses_sha1(leaf) and leaf.not_before >= SHA1_FORGEABLE:
        return f"the certificate below was signed with SHA-1 in {leaf.not_before.year}, when that could be forged"
    return ""


def _revoked(path: tuple[Certificate, ...], store: TrustStore) -> Finding | None:
    for certificate, issuer in itertools.pairwise(path):
        for listed in store.lists_of(issuer.subject):
            if listed.lists(certificate.serial) and verifies(
                issuer.public_key, listed.tbs, listed.signature, listed.signature_algorithm, listed.signature_parameters
            ):
                return found.CertificateRevoked(str(certificate.subject))
    return None


def _remarks(path: tuple[Certificate, ...], store: TrustStore, origin: Origin, now: datetime) -> Iterator[Finding]:
    for certificate in path[:-1]:
        if uses_sha1(certificate):
            yield found.WeakLink(str(certificate.subject))
    for certificate in path:
        if not certificate.not_before <= now <= certificate.not_after:
            yield found.CertificateNotInForce(
                str(certificate.subject), f"{certificate.not_before:%Y-%m-%d}", f"{certificate.not_after:%Y-%m-%d}"
            )
    for issuer in path[1:]:
        for listed in store.lists_of(issuer.subject):
            if listed.next_update is not None and listed.next_update < now:
                yield found.RevocationListStale(str(issuer.subject), f"{listed.next_update:%Y-%m-%d}")
    if origin is Origin.OWNER:
        yield found.NotAManufacturer(str(path[-1].subject))
