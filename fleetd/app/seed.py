"""What HookOS fetches of a run: the NoCloud seed, or the ticket that the installed system will redeem."""

import json
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.exchange import Exchange
from fleetd.app.refusals import CallRefusedError
from fleetd.app.session import Caller
from fleetd.core.attestation.device_keys import known_public
from fleetd.core.attestation.structures import Algorithm, Curve, EccParameters, PublicArea
from fleetd.core.attestation.transcript import Purpose, seed_key
from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.exchange.sealing import NONCE, seal, ticket_hash
from fleetd.core.findings.tickets import SeedNotRendered
from fleetd.core.names import Family, IntentKind, MachineId, RunId
from fleetd.core.seed import SeedInputs
from fleetd.store.enrollments import EnrollmentRow, InstallRow, install_of_run
from fleetd.store.machines import MachineRow
from fleetd.store.tickets import TicketRow, TicketState, tickets_of

WRITING = frozenset({"erasing", "installing"})
"""States of a run in which its disk is written."""
_TICKET = 32


@dataclass(frozen=True, slots=True)
class Recipient:
    """A machine in the middle of a run, and what its seed is made of."""

    run: runs.OpenRun
    machine_class: MachineClass
    install: InstallRow


def fetch_seed(exchange: Exchange, caller: Caller, path: str) -> str:
    """Return the signed NoCloud seed, sealed to the session. Raises CallRefusedError."""
    recipient = _recipient(exchange, caller)
    if recipient.machine_class.family is not Family.CLOUD_INIT_NOCLOUD:
        raise CallRefusedError(409, "no-seed-here", "this family redeems its seed from the installed system", stop=True)
    content = render(exchange, recipient)
    return _sealed(exchange, caller, path, Purpose.SEED, content)


def fetch_ticket(exchange: Exchange, caller: Caller, path: str) -> str:
    """Return a new signed ticket, sealed to the session; earlier ones of the run are void. Raises CallRefusedError."""
    recipient = _recipient(exchange, caller)
    if recipient.machine_class.family is Family.CLOUD_INIT_NOCLOUD:
        raise CallRefusedError(409, "no-ticket-here", "this family gets its seed while the disk is written", stop=True)
    ticket = urlsafe_b64encode(exchange.random.bytes(_TICKET)).rstrip(b"=").decode()
    now = exchange.clock.now()
    life = recipient.machine_class.deadlines.to_configure(recipient.machine_class.family)
    with exchange.sessions.begin() as session:
        for earlier in tickets_of(session, caller.run):
            earlier.state, earlier.why_burnt = TicketState.BURNT, "another ticket was given"
        session.add(
            TicketRow(
                keyed_hash=ticket_hash(exchange.server_key, ticket),
                run_id=caller.run,
                machine_id=caller.machine,
                made=now,
                # The run's own deadline ends it sooner; this only keeps a forgotten one from living for ever.
                expires=now + 2 * life + exchange.settings.timing.tidy,
                state=TicketState.FRESH,
            )
        )
    return _sealed(
        exchange, caller, path, Purpose.TICKET, json.dumps(_ticket_body(exchange, recipient, ticket)).encode()
    )


def _ticket_body(exchange: Exchange, recipient: Recipient, ticket: str) -> dict[str, Any]:
    if recipient.machine_class.family is Family.TALOS:
        return {"code": ticket}
    return {
        "machine": recipient.run.machine,
        "run": str(recipient.run.id),
        "ticket": ticket,
        "url": exchange.settings.public_url,
        "ca": exchange.settings.ca_pem,
        "keys": b64encode(exchange.speaker.jwks()).decode(),
        "lak_unique": b64encode(recipient.install.lak_unique).decode(),
        "lak_algorithm": algorithm_of(known_public(recipient.install.lak_public)),
    }


def _recipient(exchange: Exchange, caller: Caller) -> Recipient:
    with exchange.sessions() as session:
        run = runs.open_run(session, caller.machine)
        if run is None or run.id != caller.run or run.kind is not IntentKind.PROVISION:
            raise CallRefusedError(409, "no-run", "the run is over or installs nothing", stop=True)
        if run.cancelled:
            raise CallRefusedError(409, "cancelled", "the run was cancelled", stop=True)
        if run.state not in WRITING:
            raise CallRefusedError(409, "not-now", f"the run is {run.state}", stop=False, retry_after=5)
        refuse_quarantined(session, caller.machine)
        install = install_of_run(session, caller.machine, caller.run)
        judged = session.scalar(select(EnrollmentRow.boot_judged).where(EnrollmentRow.id == caller.enrollment))
    found = class_of(exchange, run)
    if install is None or install.staged:
        raise CallRefusedError(409, "not-now", "the disk was not erased in this run", stop=True)
    if not found.may_deliver_secrets or not (judged or found.allow_secrets_in_network_trusted):
        raise CallRefusedError(
            403, "boot-not-judged", "the class gives no secrets to a system that was not judged", stop=True
        )
    return Recipient(run, found, install)


def refuse_quarantined(session: Session, machine: MachineId) -> None:
    """Refuse seeds to a quarantined machine. Raises CallRefusedError 403."""
    row = session.get(MachineRow, machine)
    if row is None or row.quarantined_at is not None:
        raise CallRefusedError(403, "quarantined", "the machine is quarantined", stop=True)


def class_of(exchange: Exchange, run: runs.OpenRun) -> MachineClass:
    """Return the class that the run installs. Raises CallRefusedError 503 where it is not in force any more."""
    found = exchange.classes().get(run.machine_class)
    if found is None:
        raise CallRefusedError(503, "class-missing", "the machine's class is not in force", retry_after=60)
    return found


def render(exchange: Exchange, recipient: Recipient) -> bytes:
    """Render the seed of a run from what was recorded when it began. Raises CallRefusedError 503."""
    return render_for(exchange, recipient.run.id, recipient.run.declaration, recipient.machine_class, recipient.install)


def render_for(
    exchange: Exchange, run: RunId, declaration: Declaration, machine_class: MachineClass, install: InstallRow
) -> bytes:
    """Render the seed. Raises CallRefusedError 503 with the finding when it cannot be."""
    issued = exchange.issuer.current(declaration.machine, install.ldevid_public, install.lak_public)
    inputs = SeedInputs(
        run=run,
        declaration=declaration,
        machine_class=machine_class,
        fleet_url=exchange.settings.public_url,
        fleet_ca=exchange.settings.ca_pem,
        fleet_keys=b64encode(exchange.speaker.jwks()).decode(),
        certificates=issued.certificates if issued else None,
        devid_public=install.ldevid_public,
        devid_private=install.ldevid_private,
        lak_unique=install.lak_unique,
        lak_algorithm=algorithm_of(known_public(install.lak_public)),
    )
    try:
        return exchange.seeds.render(inputs)
    except ValueError as error:
        finding = SeedNotRendered(str(error))
        raise CallRefusedError(
            503, "seed-not-rendered", finding.sentence(), findings=[finding], stop=False, retry_after=30
        ) from None


def algorithm_of(lak: PublicArea) -> str:
    """Return the LAK's algorithm as the machine API names it."""
    if lak.type is Algorithm.RSA:
        return "rsa-2048"
    assert isinstance(lak.parameters, EccParameters)
    return {Curve.P256: "p-256", Curve.P384: "p-384"}[Curve(lak.parameters.curve)]


def _sealed(exchange: Exchange, caller: Caller, path: str, purpose: Purpose, content: bytes) -> str:
    key = seed_key(caller.key, path, caller.counter)
    envelope = seal(key, exchange.random.bytes(NONCE), content, purpose, caller.enrollment, caller.run)
    payload = {
        "run": str(caller.run),
        "enrollment": str(caller.enrollment),
        "sealed": b64encode(envelope).decode(),
    }
    return exchange.speaker.sign("fleet-seed+jwt", payload)
