"""What NetBox is told of a machine's certificates and endorsement keys."""

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from fleetd.app.exchange import Exchange
from fleetd.app.stamps import stamp
from fleetd.core.certificates.order import Issued
from fleetd.core.names import MachineId
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.outbox import add_report


def report_certificates(exchange: Exchange, machine: MachineId, issued: Issued) -> None:
    """Queue the report of certificates that were just issued."""
    now = exchange.clock.now()
    with exchange.sessions.begin() as session:
        add_report(session, machine, {"certificates": certificate_rows(issued)}, now)


def certificate_rows(issued: Issued) -> list[dict[str, Any]]:
    """Return both certificates as `reports/` takes them."""
    pairs = (("ldevid", issued.certificates.ldevid), ("lak", issued.certificates.lak))
    return [_row(kind, pem) for kind, pem in pairs]


def _row(kind: str, pem: str) -> dict[str, Any]:
    certificate = x509.load_pem_x509_certificate(pem.encode())
    return {
        "kind": kind,
        "serial": f"{certificate.serial_number:x}",
        "fingerprint": certificate.fingerprint(SHA256()).hex(),
        "not_before": stamp(certificate.not_valid_before_utc),
        "not_after": stamp(certificate.not_valid_after_utc),
        "issuer": certificate.issuer.rfc4514_string(),
        "pem": pem,
        "revoked_at": None,
        "revocation_reason": "",
    }


def key_row(row: EndorsementKeyRow) -> dict[str, Any]:
    """Return an endorsement key as `reports/` takes it."""
    return {
        "public_hash": row.public_hash,
        "key_type": row.key_type,
        "certificate_sha256": row.certificate_sha256,
        "manufacturer": row.manufacturer,
        "model": row.model,
        "version": row.version,
        "chain_status": row.chain_status,
        "first_seen_address": row.address,
        "findings": row.findings,
    }
