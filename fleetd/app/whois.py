"""Which machine endorsement keys belong to, as ledger and NetBox say together."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from sqlalchemy.orm import Session

from fleetd.app.messages import EndorsementKey
from fleetd.core.attestation.endorsement import certificate_of
from fleetd.core.attestation.structures import PublicArea
from fleetd.core.identity import Identity, OfferedKey, identify
from fleetd.core.names import MachineId
from fleetd.store.declared_keys import declared_bindings
from fleetd.store.endorsement_keys import keys_of, known_keys


def offered_keys(keys: Sequence[EndorsementKey], publics: Sequence[PublicArea]) -> list[OfferedKey]:
    """Return the offered keys by their hashes; a certificate counts only for the key that it certifies."""
    return [
        OfferedKey(sha256(public.raw).hexdigest(), _certificate_hash(public, key.certificate))
        for key, public in zip(keys, publics, strict=True)
    ]


def said_of(session: Session, offered: Iterable[OfferedKey]) -> dict[str, set[str]]:
    """Return what NetBox says of these keys: statuses by public hash, of those that it knows."""
    keys = list(offered)
    declared = declared_bindings(session, keys)
    said = {key.public_hash: {binding.status for binding in declared if binding.means(key)} for key in keys}
    return {public_hash: statuses for public_hash, statuses in said.items() if statuses}


def _certificate_hash(public: PublicArea, stored: bytes | None) -> str:
    """Return the hash of the DER: NV holds it with padding or behind a header."""
    certificate = certificate_of(public, stored) if stored else None
    return certificate.fingerprint if certificate else ""


def who_is(session: Session, offered: Iterable[OfferedKey]) -> Identity:
    """Say whose keys these are."""
    keys = list(offered)
    rows = known_keys(session, [key.public_hash for key in keys])
    ledger = {key: MachineId(row.machine_id) for key, row in rows.items() if row.machine_id is not None}
    declared = declared_bindings(session, keys)
    machines = {binding.machine for binding in declared} | set(ledger.values())
    bound = {machine: frozenset(row.public_hash for row in keys_of(session, machine)) for machine in machines}
    return identify(keys, ledger, declared, bound)
