"""Certificates that ride on the answer to a boot check: when they are due, and until the machine names them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import structlog

from fleetd.app.certificate_reports import report_certificates
from fleetd.app.exchange import Exchange
from fleetd.core.certificates.order import IssueOrder
from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.names import MachineId
from fleetd.ports import OutsideError
from fleetd.store.certificates import HOLD, CertificateRow, to_be_renewed, withdrawn
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.enrollments import EnrollmentRow, InstallRow
from fleetd.store.machines import MachineRow

_log = structlog.get_logger(__name__)


def acceptable(
    rows: Sequence[CertificateRow], install: InstallRow, serials: tuple[str, ...], *, quarantined: bool
) -> bool:
    """Tell whether none of these serials is another machine's, unknown, or revoked for anything but replacement.

    Nor may the newest certificate of a key of the install be: a machine that names an older one, or none, gains nothing.
    `rows` are those of the machine, newest first. A hold is the quarantine's, and ends by a good check: it fails none.
    """
    fine = {"", "superseded"} | ({HOLD} if quarantined else set())
    if any(row.reason not in fine for row in withdrawn(rows, _keys(install))):
        return False
    known = {row.serial: row for row in rows}
    # A lost answer may leave a machine with the certificates before: superseded ones lock nobody out.
    return all(serial in known and known[serial].reason in fine for serial in serials)


def issuing(exchange: Exchange) -> frozenset[str]:
    """Return the fingerprints of the authorities that issue now; none where they cannot be read: no check waits for that."""
    try:
        return exchange.issuer.issuing()
    except OutsideError as error:
        _log.warning("authorities cannot be read", error=str(error))
        return frozenset()


def settled(
    rows: Sequence[CertificateRow],
    install: InstallRow,
    serials: tuple[str, ...],
    issuers: frozenset[str],
    now: datetime,
) -> bool:
    """Tell whether the machine uses its newest certificates, that is noted, and none is due: nothing is to be done."""
    keys = _keys(install)
    in_force = [row for row in rows if row.revoked_at is None and row.not_after and row.not_after > now]
    if len(in_force) != len(keys):
        return False
    return all(
        row.serial in serials
        and row.key_hash in keys
        and row.installed_at is not None
        and row.issuer in issuers
        and not to_be_renewed(row, now)
        for row in in_force
    )


def renewed(
    exchange: Exchange,
    machine: MachineId,
    declaration: Declaration,
    machine_class: MachineClass,
    install: InstallRow,
    installed: tuple[str, ...],
    reason: UUID,
) -> Mapping[str, Any] | None:
    """Return certificates that the machine shall install, or None; a good check is not held up by an ailing CA.

    `reason` is the id of the challenge: a repetition of the same check issues nothing twice.
    """
    try:
        keys = install.ldevid_public, install.lak_public
        current = exchange.issuer.current(machine, *keys)
        if current is not None and not exchange.issuer.renewal_due(machine, *keys):
            known = {current.ldevid_serial, current.lak_serial} <= set(installed)
            return None if known else current.certificates.as_dict()
        order = _order(exchange, machine, declaration, machine_class, install, reason)
        if order is None:
            return None
        issued = exchange.issuer.issue(order)
    except OutsideError as error:
        _log.warning("certificates not renewed", machine=machine, error=str(error))
        return None
    report_certificates(exchange, machine, issued)
    return issued.certificates.as_dict()


def _keys(install: InstallRow) -> set[str]:
    return {sha256(install.ldevid_public).hexdigest(), sha256(install.lak_public).hexdigest()}


def _order(
    exchange: Exchange,
    machine: MachineId,
    declaration: Declaration,
    machine_class: MachineClass,
    install: InstallRow,
    reason: UUID,
) -> IssueOrder | None:
    with exchange.sessions() as session:
        row = session.get(MachineRow, machine)
        key = session.get(EndorsementKeyRow, install.ek_hash)
        enrolled = session.get(EnrollmentRow, install.enrollment_id)
    if row is None or row.quarantined_at is not None or key is None:
        return None
    return IssueOrder(
        enrollment=reason,
        machine=machine,
        node_name=declaration.node_name,
        device_serial=declaration.device_serial,
        machine_class=machine_class,
        lak_public=install.lak_public,
        ldevid_public=install.ldevid_public,
        ek_public=key.public,
        ek_certificate=key.certificate,
        facts=enrolled.facts if enrolled else {},
        renewal=True,
    )
