"""Taking back what a machine held, each step noted the first time that it was done."""

from typing import Any

from fleetd.app.evidence import sign_retirement
from fleetd.app.world import World
from fleetd.core.lifecycle import effects as do
from fleetd.core.lifecycle.run import Run
from fleetd.core.names import IntentKind
from fleetd.store.certificates import certificates_of
from fleetd.store.checks import CheckRow
from fleetd.store.evidence import note_deed

TAKING_BACK = (IntentKind.WIPE, IntentKind.RETIRE)


def take_back(effect: do.Effect, run: Run, world: World) -> None:
    """Perform an effect that takes something back. Raises OutageError and RefusedError."""
    match effect:
        case do.RevokeCertificates(reason):
            revoke(run, world, reason)
        case do.VoidTickets():
            world.tickets.void(run.machine, run.id)
            noted(run, world, "tickets", "Every ticket of the machine is void.")
        case do.BanAgents():
            ban_agents(run, world)
        case do.RemoveReservation():
            give_addresses_back(run, world)
        case do.ArchiveBaseline():
            archive_baseline(run, world)
        case do.NoteDeed(step, message):
            noted(run, world, step, message)
        case do.SignRetirement():
            sign_retirement(run, world)
        case other:
            raise TypeError(f"no way to perform {other!r}")


def noted(run: Run, world: World, step: str, message: str, **detail: Any) -> None:
    """Note a step of a wipe or retirement; of another run nothing is noted."""
    if run.kind not in TAKING_BACK:
        return
    with world.sessions.begin() as session:
        note_deed(session, run.id, step, message, detail, world.clock.now())


def revoke(run: Run, world: World, reason: str) -> None:
    """Revoke every certificate of the machine, CRL included; its keys are forgotten with them."""
    world.authority.revoke(run.machine, reason)
    with world.sessions() as session:
        serials = [row.serial for row in certificates_of(session, run.machine) if row.revoked_at is not None]
    said = f"{len(serials)} certificates are revoked and in the revocation lists."
    noted(run, world, "certificates", said if serials else "The machine held no certificate.", serials=serials)
    noted(run, world, "keys", "The keys of the install are forgotten: nothing that they sign counts any more.")


def ban_agents(run: Run, world: World) -> None:
    """Ban the machine's SPIRE agents: SPIRE trusts an LDevID until it ends, whatever the CRL says."""
    if world.workloads is None:
        noted(run, world, "agents", "No SPIRE is configured: there is no agent to ban.")
        return
    with world.sessions() as session:
        devids = [row.der for row in certificates_of(session, run.machine) if row.kind == "ldevid" and row.der]
    banned = world.workloads.ban(devids)
    said = f"Banned in SPIRE: {', '.join(banned)}." if banned else "The machine held no LDevID that SPIRE could know."
    noted(run, world, "agents", said, agents=list(banned))


def give_addresses_back(run: Run, world: World) -> None:
    """Take the machine's DHCP reservations away; another machine may have its addresses now."""
    world.reservations.remove(run.machine)
    noted(run, world, "reservations", "fleetd reserves no address for the machine any more.")


def archive_baseline(run: Run, world: World) -> None:
    """Keep the baseline with the run; the machine's boots are judged by nothing from now on."""
    with world.sessions.begin() as session:
        row = session.get(CheckRow, run.machine, with_for_update=True)
        if row is None or not row.baseline:
            message, detail = "The machine had no baseline.", {}
        else:
            message = "The baseline is archived."
            pcrs = row.baseline.get("pcrs", {})
            detail = {"baseline": row.baseline, "baseline_digest": row.baseline_digest, "pcrs": pcrs}
        if run.kind in TAKING_BACK:
            note_deed(session, run.id, "baseline", message, detail, world.clock.now())
        if row is not None:
            session.delete(row)
