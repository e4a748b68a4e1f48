"""Redemption: the installed system shows its ticket and a quote, and gets its seed once."""

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.answers import problem_answer, signed_answer
from fleetd.app.exchange import Exchange
from fleetd.app.facts import dmi, machine_facts
from fleetd.app.messages import Redeem
from fleetd.app.pcrs import PcrTexts, pcr_values, quoted_pcrs
from fleetd.app.recorded import declaration_of_run
from fleetd.app.refusals import CallRefusedError, malformed
from fleetd.app.rows import lock_run
from fleetd.app.seed import class_of, refuse_quarantined, render_for
from fleetd.app.single_use import opened, repeated, take
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.device_keys import known_public
from fleetd.core.attestation.quote import RawQuote
from fleetd.core.attestation.transcript import Label, Purpose, redeem_key, redeem_transcript
from fleetd.core.attestation.verdict import CheckEvidence, CheckExpectation, CheckResult, CheckVerdict, verify_check
from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.exchange import tokens
from fleetd.core.exchange.sealing import NONCE, seal, ticket_hash
from fleetd.core.findings import Finding
from fleetd.core.findings.tickets import SeedChanged, TicketAgain, TicketFromOtherAddress, TicketFromOtherHardware
from fleetd.core.names import MachineId, RunId
from fleetd.core.smbios import contradicts_serial, contradicts_uuid
from fleetd.store import audit
from fleetd.store.checks import begun_state
from fleetd.store.enrollments import InstallRow, current_install, latest_enrollment
from fleetd.store.tickets import TicketRow, TicketState, find_ticket
from fleetd.store.tokens import Answer, keep_answer


@dataclass(frozen=True, slots=True)
class Redemption:
    """A redemption whose token is ours."""

    ask: Redeem
    challenge: tokens.Challenge
    machine: MachineId
    run: RunId
    facts: dict[str, Any]
    address: str


def redeem(exchange: Exchange, ask: Redeem, raw: bytes, address: str) -> Answer:
    """Judge a redemption and answer it with the seed. Raises CallRefusedError."""
    challenge = opened(exchange, ask.token, tokens.Purpose.REDEEM)
    digest = sha256(raw).digest()
    with exchange.sessions() as session:
        before = repeated(session, challenge.id, digest)
    if before is not None:
        return before
    assert challenge.machine is not None
    assert challenge.run is not None
    try:
        facts = machine_facts(ask.facts)
    except ValueError as error:
        raise malformed(f"facts: {error}") from error
    wanted = Redemption(ask, challenge, MachineId(challenge.machine), RunId(challenge.run), facts, address)
    # The ticket first: a lookup is cheaper than a signature, and tells nothing to those who have none.
    with exchange.sessions() as session:
        if _ticket(exchange, session, wanted) is None:
            raise _unknown()
        install = current_install(session, wanted.machine)
        run = runs.open_run(session, wanted.machine)
    if install is None or install.run_id != wanted.run:
        raise _unknown()
    found = _class(exchange, wanted, run)
    verdict = _quoted(wanted, install, found)
    if verdict.quote is None:
        # Whoever has the ticket but not the TPM burns nothing: the rightful machine may still come.
        raise _not_verified(verdict.findings)
    take(exchange, challenge, digest)
    try:
        answer = _exchanged(exchange, wanted, install, found, verdict)
    except CallRefusedError as refusal:
        answer = problem_answer(refusal)
    with exchange.sessions.begin() as session:
        keep_answer(session, challenge.id, answer)
    return answer


def _ticket(exchange: Exchange, session: Session, wanted: Redemption) -> TicketRow | None:
    row = find_ticket(session, ticket_hash(exchange.server_key, wanted.ask.ticket))
    if row is None or row.run_id != wanted.run or row.machine_id != wanted.machine:
        return None
    return row


def _class(exchange: Exchange, wanted: Redemption, run: runs.OpenRun | None) -> MachineClass:
    if run is not None and run.id == wanted.run:
        return class_of(exchange, run)
    with exchange.sessions() as session:
        declaration = declaration_of_run(session, wanted.run)
    found = exchange.classes().get(declaration.machine_class) if declaration else None
    if found is None:
        raise CallRefusedError(503, "class-missing", "the machine's class is not in force", retry_after=60)
    return found


def _quoted(wanted: Redemption, install: InstallRow, found: MachineClass) -> CheckVerdict:
    assert found.attestation is not None
    pcrs = wanted.challenge.pcrs
    return verify_check(
        CheckEvidence(
            RawQuote(wanted.ask.quote.attest), wanted.ask.quote.signature, pcr_values(wanted.ask.pcrs), wanted.ask.log
        ),
        CheckExpectation(
            lak=known_public(install.lak_public),
            nonce=wanted.challenge.nonce,
            transcript=redeem_transcript(wanted.ask.token, wanted.ask.ticket),
            demanded=PcrSelection.of(Bank(pcrs.bank), *pcrs.select),
            label=Label.REDEEM,
        ),
        None,
        found.attestation,
        None,
    )


def _exchanged(
    exchange: Exchange, wanted: Redemption, install: InstallRow, found: MachineClass, verdict: CheckVerdict
) -> Answer:
    now = exchange.clock.now()
    if verdict.result is CheckResult.FAILED:
        raise _not_verified(verdict.findings)
    needs_log = found.attestation is not None and bool(found.attestation.check.allow)
    if verdict.result is CheckResult.LOG_NEEDED and needs_log:
        raise CallRefusedError(
            403, "log-needed", "the class judges the boot: send the event log", stop=False, retry_after=1
        )
    with exchange.sessions() as session:
        refuse_quarantined(session, wanted.machine)
    _same_hardware(exchange, wanted, now)
    with exchange.sessions() as session:
        declaration = declaration_of_run(session, wanted.run)
    if declaration is None:
        raise _unknown()
    _same_place(exchange, wanted, declaration, now)
    seed = render_for(exchange, wanted.run, declaration, found, install)
    redeem_ticket(exchange, wanted, seed, now)
    with exchange.sessions.begin() as session:
        _remember_pcrs(session, wanted, quoted_pcrs(verdict.quote), now, exchange)
    exchange.wake(wanted.machine)
    (secret,) = wanted.challenge.credentials
    key = redeem_key(secret.secret, redeem_transcript(wanted.ask.token, wanted.ask.ticket))
    nonce = exchange.random.bytes(NONCE)
    envelope = seal(key, nonce, seed, Purpose.REDEEM, wanted.challenge.id, wanted.run)
    payload = {
        "run": str(wanted.run),
        "challenge": str(wanted.challenge.id),
        "sealed": b64encode(envelope).decode(),
    }
    return signed_answer(exchange.speaker, "fleet-seed+jwt", payload)


def _same_hardware(exchange: Exchange, wanted: Redemption, now: datetime) -> None:
    """Burn the ticket where another serial or UUID comes with it."""
    with exchange.sessions() as session:
        enrolled = latest_enrollment(session, wanted.machine, wanted.run)
    if enrolled is None:
        raise _unknown()
    differs = ""
    if contradicts_serial(dmi(enrolled.facts, "serial"), dmi(wanted.facts, "serial")):
        differs = "serial number"
    elif contradicts_uuid(dmi(enrolled.facts, "uuid"), dmi(wanted.facts, "uuid")):
        differs = "system UUID"
    if differs:
        raise burn(exchange, wanted.ask.ticket, wanted.machine, wanted.run, TicketFromOtherHardware(differs), now)


def _same_place(exchange: Exchange, wanted: Redemption, declaration: Declaration, now: datetime) -> None:
    """Refuse a repetition from an address that is neither the first one nor one that NetBox gives the machine."""
    finding = None
    with exchange.sessions.begin() as session:
        row = _ticket(exchange, session, wanted)
        used = row is not None and row.redeemed_at is not None
        if row is not None and used and wanted.address != row.redeemed_from:
            given = {item.address.partition("/")[0] for item in declaration.addresses}
            if wanted.address not in given:
                finding = TicketFromOtherAddress(wanted.address)
                alert(session, wanted.machine, wanted.run, finding, now)
    if finding is not None:
        raise CallRefusedError(403, finding.code, finding.sentence(), findings=[finding], stop=True)


def burn(
    exchange: Exchange, ticket: str, machine: MachineId, run: RunId, finding: Finding, now: datetime
) -> CallRefusedError:
    """Void the ticket, raise the alert, and return the refusal."""
    with exchange.sessions.begin() as session:
        row = find_ticket(session, ticket_hash(exchange.server_key, ticket))
        if row is not None:
            row.state, row.why_burnt = TicketState.BURNT, finding.code
        alert(session, machine, run, finding, now)
    return CallRefusedError(403, finding.code, finding.sentence(), findings=[finding], stop=True)


def alert(session: Session, machine: MachineId, run: RunId, finding: Finding, now: datetime) -> None:
    """Record something about a ticket that a person must look at."""
    audit.record(session, now, finding.code, who="machine", machine=machine, run=run, finding=finding.sentence())


def redeem_ticket(exchange: Exchange, wanted: Redemption, seed: bytes, now: datetime) -> None:
    """Use the ticket, or use it again within the replay window for the same seed. Raises CallRefusedError."""
    rendered = sha256(seed).hexdigest()
    refusal: Finding | None = None
    with exchange.sessions.begin() as session:
        lock_run(session, wanted.run)  # before the ticket, as a check does: nobody waits in a circle
        row = _ticket(exchange, session, wanted)
        refusal = spend(session, row, rendered, now, exchange, wanted.address)
        if refusal is None:
            runs.record_redemption(session, wanted.run, now)
        else:
            alert(session, wanted.machine, wanted.run, refusal, now)
    if refusal is not None:
        raise CallRefusedError(403, refusal.code, refusal.sentence(), findings=[refusal], stop=True)


def spend(
    session: Session, row: TicketRow | None, rendered: str, now: datetime, exchange: Exchange, address: str
) -> Finding | None:
    """Spend the ticket; return why it cannot be spent."""
    if row is None or row.state == TicketState.BURNT:
        return TicketAgain(f"it is void ({row.why_burnt})" if row is not None else "it is void")
    if now >= row.expires:
        return TicketAgain("its time is over")
    if row.redeemed_at is None:
        run = runs.open_run(session, MachineId(row.machine_id))
        if run is None or run.id != row.run_id or run.state not in {"configuring", "handing-over", "installing"}:
            return TicketAgain("the run does not wait for a redemption")
        row.state, row.redeemed_at, row.redeemed_from = TicketState.REDEEMED, now, address
        row.seed_sha256 = rendered
        return None
    if now - row.redeemed_at > exchange.settings.replay_window:
        row.state, row.why_burnt = TicketState.BURNT, "the time for a repetition is over"
        return TicketAgain("the time for a repetition is over")
    if row.seed_sha256 != rendered:
        return SeedChanged()
    return None


def _remember_pcrs(session: Session, wanted: Redemption, pcrs: PcrTexts, now: datetime, exchange: Exchange) -> None:
    """Keep what the system booted into: the first baseline must be the same."""
    row = begun_state(session, wanted.machine, wanted.run, now + exchange.settings.check_interval)
    row.redeemed_pcrs = pcrs


def _not_verified(findings: tuple[Finding, ...]) -> CallRefusedError:
    return CallRefusedError(
        403, "not-verified", "the installed system was not verified", findings=findings, stop=False, retry_after=60
    )


def _unknown() -> CallRefusedError:
    return CallRefusedError(403, "ticket-unknown", "the ticket is not valid for this machine and run", stop=True)
