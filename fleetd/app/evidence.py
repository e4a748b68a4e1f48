"""Signed records: of each erased disk as its erase is told of, and of a retirement when all of it is done.

Written by the look, in the transaction of its decision or as an effect that finds its own work again.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.app.world import Signer, World
from fleetd.core.declaration import Declaration
from fleetd.core.evidence.records import (
    ERASE,
    RETIREMENT,
    Witness,
    erase_record,
    erased_disks,
    retirement_record,
    told_digest,
)
from fleetd.core.findings import codes_of
from fleetd.core.lifecycle.run import Run
from fleetd.core.names import MachineId, RunId, disk_serial
from fleetd.store import audit
from fleetd.store.events import EventRow
from fleetd.store.evidence import EvidenceRow, deeds_of, keep_record, records_of, words_of
from fleetd.store.runs import VerdictRow, last_verdict


def keep_erase_records(session: Session, run: Run, signer: Signer, now: datetime) -> None:
    """Sign a record for every disk whose erase was told of and not signed yet."""
    if run.first_leave_at is None:
        return
    signed = {row.subject: row.told for row in records_of(session, run.id)}
    latest: dict[str, dict[str, Any]] = {}
    for event in _erases(session, run.id):
        latest |= dict(erased_disks(run, event.data))
    for serial, told in latest.items():
        digest = told_digest(told)
        if signed.get(serial) == digest:
            continue
        payload = erase_record(run, told, witness_of(session, run.id), now)
        keep_record(session, run.id, "erase", serial, digest, signer.sign(ERASE, payload), now)
        audit.record(
            session, now, "erase-recorded", machine=run.machine, run=run.id, serial=serial, method=told["method"]
        )


def _erases(session: Session, run: RunId) -> list[EventRow]:
    query = select(EventRow).where(
        EventRow.run_id == run, EventRow.action == "erase", EventRow.kind.in_(("evidence", "finished"))
    )
    return list(session.scalars(query.order_by(EventRow.seq)))


def witness_of(session: Session, run: RunId) -> Witness:
    """Return how the machine of this run was judged before it erased."""
    verdict = last_verdict(session, run)
    if verdict is None:
        return Witness("", "", ())
    told = verdict.attestation
    return Witness(str(told.get("id", "")), str(told.get("policy", "")), codes_of(verdict.findings))


def disks_seen(session: Session, machine: MachineId) -> list[dict[str, Any]]:
    """Return the disks that the machine showed in its latest enrollment; empty where it never showed any."""
    query = select(VerdictRow.facts).where(VerdictRow.machine_id == machine, VerdictRow.state == "passed")
    for facts in session.scalars(query.order_by(VerdictRow.id.desc()).limit(20)):
        disks = facts.get("disks")
        if isinstance(disks, list) and disks:
            return [disk for disk in disks if isinstance(disk, dict)]
    return []


def undeclared_disks(session: Session, run: Run) -> tuple[str, ...]:
    """Name the disks that the machine showed and that are neither erased in this run nor vouched for by a person."""
    return tuple(disk["name"] for disk in disk_fates(session, run) if disk["state"] == LEFT)


LEFT = "not erased"


def disk_fates(session: Session, run: Run) -> list[dict[str, Any]]:
    """Return every disk that the machine showed or that is declared, with what became of it in this run."""
    erased = {row.subject: row for row in records_of(session, run.id) if row.kind == "erase"}
    words = words_of(session, run.id)
    found: dict[str, dict[str, Any]] = {}
    for disk in disks_seen(session, run.machine):
        serial = disk_serial(str(disk.get("serial", "")))
        name = serial or f"{disk.get('name', 'a disk')} without serial"
        found[name] = {"serial": serial, "model": str(disk.get("model", "")), "size": disk.get("size")}
    declared: set[str] = set(_declared(run.orders))
    for missing in declared - set(found):
        found[missing] = {"serial": missing, "model": "", "size": None}
    for name, disk in found.items():
        word = words.get(name)
        disk |= {"name": name, "declared": name in declared, "state": LEFT}
        if name in erased:
            disk["state"] = f"erased; record signed {erased[name].at.isoformat(timespec='seconds')}"
        elif word is not None:
            disk["state"] = f"not erased: {word.by} gave their word ({word.reason})"
        elif run.given_up:
            disk["state"] = f"not erased: {run.lost_by} declared the machine lost"
    return [found[name] for name in sorted(found)]


def _declared(orders: Declaration) -> Iterator[str]:
    if orders.disk is not None:
        yield orders.disk.serial
    yield from (disk.serial for disk in orders.extra_disks)


def _told(detail: dict[str, Any]) -> dict[str, Any]:
    """Return what the record says of a step: of a baseline its digest and PCRs, its events stay in the store."""
    return {name: value for name, value in detail.items() if name != "baseline"}


def sign_retirement(run: Run, world: World) -> None:
    """Sign what was done in a retirement; a record that exists stays as it is."""
    now = world.clock.now()
    with world.sessions.begin() as session:
        if session.get(EvidenceRow, (run.id, "retirement", "")) is not None:
            return
        deeds = [
            {"step": deed.step, "at": deed.at.isoformat(), "message": deed.message, **_told(deed.detail)}
            for deed in deeds_of(session, run.id)
        ]
        payload = retirement_record(run, disk_fates(session, run), deeds, now)
        keep_record(session, run.id, "retirement", "", "", world.signer.sign(RETIREMENT, payload), now)
        audit.record(session, now, "retirement-recorded", machine=run.machine, run=run.id)
