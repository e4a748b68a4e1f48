"""What a person on the service host may say of a machine: lost, to be released, or to be forgotten."""

from datetime import datetime

from sqlalchemy.orm import Session

from fleetd.app.evidence import undeclared_disks
from fleetd.app.rows import lock_run, run_of
from fleetd.app.world import World
from fleetd.core.names import MachineId, RunId
from fleetd.store import audit
from fleetd.store.certificates import certificates_of
from fleetd.store.evidence import POWER_OFF, WordRow
from fleetd.store.machines import MachineRow, wake


class WishRefusedError(ValueError):
    """It cannot be done; the message says why."""


def declare_lost(session: Session, machine: MachineId, by: str, reason: str, now: datetime) -> None:
    """Let the machine's wipe or retirement end without its disk: credentials are withdrawn all the same.

    Raises WishRefusedError where no such run is open.
    """
    row = session.get(MachineRow, machine)
    run_row = lock_run(session, RunId(row.run_id)) if row is not None and row.run_id and row.run_open else None
    if run_row is None or run_row.kind not in {"wipe", "retire"} or run_of(run_row).over:
        raise WishRefusedError("no wipe or retirement of this machine is under way: ask for one in NetBox first")
    run_row.lost_by, run_row.lost_reason = by, reason
    audit.record(session, now, "declared-lost", who=by, machine=machine, run=RunId(run_row.id), reason=reason)
    wake(session, machine, now)


def vouch(session: Session, machine: MachineId, subject: str, by: str, reason: str, now: datetime) -> None:
    """Take a person's word in a retirement: that a disk (its serial) may leave as it is, or that the machine is off.

    Raises WishRefusedError where no retirement is open, or where nobody asked for this word.
    """
    row = session.get(MachineRow, machine)
    run_row = lock_run(session, RunId(row.run_id)) if row is not None and row.run_id and row.run_open else None
    if run_row is None or run_row.kind != "retire" or run_of(run_row).over:
        raise WishRefusedError("no retirement of this machine is under way: ask for one in NetBox first")
    run = run_of(run_row)
    wanted = undeclared_disks(session, run)
    if subject == POWER_OFF and run.orders.has_bmc:
        raise WishRefusedError("the machine has a BMC, which says by itself whether it is off")
    if subject != POWER_OFF and subject not in wanted:
        known = ", ".join(wanted) or "none"
        raise WishRefusedError(f"no word is wanted about a disk {subject!r}; undeclared disks of this machine: {known}")
    session.merge(WordRow(run_id=run.id, subject=subject, by=by, reason=reason, at=now))
    audit.record(session, now, "vouched", who=by, machine=machine, run=run.id, subject=subject, reason=reason)
    wake(session, machine, now)


def request_release(session: Session, machine: MachineId, by: str, reason: str, now: datetime) -> None:
    """Ask that a quarantined machine be trusted again after its next good attest. Raises WishRefusedError."""
    row = session.get(MachineRow, machine, with_for_update=True)
    if row is None or row.quarantined_at is None:
        raise WishRefusedError("the machine is not quarantined")
    row.release_requested_at = now
    audit.record(session, now, "release-requested", who=by, machine=machine, reason=reason)
    wake(session, machine, now)


def forget(machine: MachineId, by: str, reason: str, world: World) -> None:
    """Withdraw the credentials and Hardware of a machine whose record vanished from NetBox.

    Raises WishRefusedError while it is declared or in a run, OutageError when a part cannot be reached.
    """
    with world.sessions() as session:
        row = session.get(MachineRow, machine)
    if row is None or not row.vanished:
        raise WishRefusedError("the machine is still declared in NetBox")
    if row.run_open:
        raise WishRefusedError("the machine's run has not ended yet")
    world.authority.revoke(machine, "cessationOfOperation")
    with world.sessions() as session:
        devids = [item.der for item in certificates_of(session, machine) if item.kind == "ldevid" and item.der]
    if world.workloads is not None:
        world.workloads.ban(devids)
    if row.run_id is not None:
        world.tickets.void(machine, RunId(row.run_id))
    world.provisioner.remove_hardware(machine)
    world.power.remove_bmc(machine)
    world.reservations.remove(machine)
    with world.sessions.begin() as session:
        held = session.get_one(MachineRow, machine, with_for_update=True)
        held.standing, held.hardware, held.pxe_open, held.next_look_at = "retired", False, False, None
        held.installed_run, held.check_state, held.disk_serial = None, "none", ""
        audit.record(session, world.clock.now(), "forgotten", who=by, machine=machine, reason=reason)
