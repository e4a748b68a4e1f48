"""Calls of a run: made under the session that an enrollment gave."""

import hmac
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.exchange import Exchange
from fleetd.app.messages import Event, Leave
from fleetd.app.refusals import CallRefusedError
from fleetd.app.stamps import stamp
from fleetd.app.untrusted import clean_text, cleaned
from fleetd.core.attestation.transcript import call_mac, session_key
from fleetd.core.declaration import Declaration
from fleetd.core.names import MachineId, RunId
from fleetd.ports import OutsideError
from fleetd.store.enrollments import EnrollmentRow, advance_counter, promote_install

_MAX_COUNTER = 2**62


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it came in; `path` as sent, `mac` from the headers."""

    method: str
    path: str
    body: bytes
    enrollment: str
    counter: str
    mac: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was shown to call: made only by `admit`."""

    enrollment: UUID
    run: RunId
    machine: MachineId
    key: bytes
    """The session key."""
    counter: int


def admit(exchange: Exchange, run: UUID, call: Call) -> Caller:
    """Check the MAC and the counter of a call of this run; the counter is taken.

    Raises CallRefusedError 401 without saying which of them was wrong.
    """
    refused = CallRefusedError(401, "no-session", "the session is not valid for this call", stop=False)
    try:
        enrollment, counter = UUID(call.enrollment), int(call.counter)
    except ValueError as error:
        raise refused from error
    canonical = str(enrollment) == call.enrollment and str(counter) == call.counter
    if not canonical or not 0 < counter < _MAX_COUNTER:
        raise refused
    key = session_key(exchange.server_key, enrollment)
    expected = call_mac(key, call.method, call.path, call.body, counter)
    if not hmac.compare_digest(expected.hex().encode(), call.mac.encode()):
        raise refused
    with exchange.sessions.begin() as session:
        row = session.get(EnrollmentRow, enrollment)
        if row is None or not row.verified or row.closed or row.run_id != run:
            raise refused
        if not advance_counter(session, enrollment, counter):
            raise refused
        return Caller(enrollment, RunId(run), MachineId(row.machine_id), key, counter)


def ask_leave(exchange: Exchange, caller: Caller, ask: Leave) -> str:
    """Return the signed leave to start this action on this disk now. Raises CallRefusedError 409.

    NetBox is read first: what a person changed a moment ago counts. Where NetBox is out, what was declared when the run
    began counts, as for everything else of a run that goes on.
    """
    fresh = _fresh_declaration(exchange, caller.machine)
    now = exchange.clock.now()
    with exchange.sessions.begin() as session:
        answer = runs.grant(session, caller.run, ask.action, ask.disk_serial, now, exchange.settings.timing)
        if isinstance(answer, runs.Granted) and fresh is not None:
            _unchanged(session, caller, fresh, ask)
        if isinstance(answer, runs.Granted) and ask.action == "erase":
            promote_install(session, caller.machine, caller.run)
    exchange.wake(caller.machine)
    if isinstance(answer, runs.NotNow):
        pause = answer.retry_after
        later = None if answer.stop else max(1, int(pause.total_seconds())) if pause else 10
        raise CallRefusedError(409, "no-leave", answer.why, stop=answer.stop, retry_after=later)
    return exchange.speaker.sign(
        "fleet-leave+jwt",
        {
            "run": str(caller.run),
            "action": ask.action,
            "disk_serial": ask.disk_serial,
            "issued": stamp(now),
            "start_before": stamp(now + exchange.settings.timing.leave),
        },
    )


def _fresh_declaration(exchange: Exchange, machine: MachineId) -> Declaration | None:
    try:
        found = exchange.inventory.declaration(machine)
    except OutsideError:
        return None
    return found if isinstance(found, Declaration) else None


def _unchanged(session: Session, caller: Caller, fresh: Declaration, ask: Leave) -> None:
    """Refuse, and so roll the grant back, when a person changed or cancelled what the run began with."""
    run = runs.open_run(session, caller.machine)
    if run is None or run.id != caller.run:
        raise CallRefusedError(409, "no-leave", "the run is over", stop=True)
    intent = fresh.intent
    if intent is not None and intent.id == run.id and intent.cancel_requested_at is not None:
        raise CallRefusedError(409, "no-leave", "the run was cancelled", stop=True)
    first_of_run = ask.action == "erase"
    if first_of_run and (fresh.disk != run.disk or fresh.machine_class != run.machine_class):
        raise CallRefusedError(409, "no-leave", "disk or class were changed in NetBox since the run began", stop=True)


def tell_event(exchange: Exchange, caller: Caller, event: Event) -> None:
    """Record what an action told; a number that was seen before is dropped."""
    now = exchange.clock.now()
    told = runs.MachineEvent(
        seq=event.seq,
        action=event.action,
        kind=event.kind,
        percent=event.percent,
        message=clean_text(event.message),
        data=cleaned(event.data) if event.data is not None else None,
    )
    with exchange.sessions.begin() as session:
        written = runs.record_event(session, caller.run, told, now)
    if written:
        exchange.wake(caller.machine)


def ask_reboot(exchange: Exchange, caller: Caller) -> bool:
    """Tell whether the machine may reboot from its disk now."""
    with exchange.sessions.begin() as session:
        return runs.may_reboot(session, caller.run, exchange.clock.now())
