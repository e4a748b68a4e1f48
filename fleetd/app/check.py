"""The hourly boot check: a quote by the LAK, held against clock, policy and baseline; the answer carries the next token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.answers import signed_answer
from fleetd.app.baselines import decide_baseline, keep_verdict
from fleetd.app.challenge import fresh_check
from fleetd.app.exchange import Exchange
from fleetd.app.messages import Check
from fleetd.app.pcrs import pcr_values, quoted_pcrs
from fleetd.app.refusals import CallRefusedError, malformed
from fleetd.app.renewal import acceptable, issuing, renewed, settled
from fleetd.app.single_use import answered_before, opened, repeated
from fleetd.app.stamps import stamp
from fleetd.app.untrusted import json_object
from fleetd.core.attestation.attest import TpmClock
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.baseline import baseline_from
from fleetd.core.attestation.clock import EarlierClock
from fleetd.core.attestation.device_keys import known_public
from fleetd.core.attestation.policy import AttestationPolicy
from fleetd.core.attestation.quote import RawQuote
from fleetd.core.attestation.transcript import check_transcript
from fleetd.core.attestation.verdict import CheckEvidence, CheckExpectation, CheckResult, CheckVerdict, verify_check
from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.exchange import tokens
from fleetd.core.findings import Finding, refuses
from fleetd.core.findings.boot import SecureBootOff
from fleetd.core.findings.checks import CertificateNotValid, MachineSays
from fleetd.core.names import MachineId
from fleetd.store.certificates import certificates_of
from fleetd.store.checks import CheckRow, begun_state, held_for_check, mark_hour
from fleetd.store.clock import last_step
from fleetd.store.enrollments import InstallRow
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import add_report
from fleetd.store.tickets import burn_tickets
from fleetd.store.tokens import Answer, keep_answer, use_token

_SMALL = 64 * 1024
_MOST_SAYINGS = 10


@dataclass(frozen=True, slots=True)
class Checked:
    """A boot check whose quote is verified, and what it is held against."""

    ask: Check
    challenge: tokens.Challenge
    held: MachineRow
    """The machine's row, locked."""
    install: InstallRow
    state: CheckRow | None
    """What was known of the boots of this install, locked; None before its first check and redemption."""
    declaration: Declaration
    machine_class: MachineClass
    policy: AttestationPolicy
    verdict: CheckVerdict
    run: runs.OpenRun | None
    says: tuple[Finding, ...] = field(default=())

    @property
    def machine(self) -> MachineId:
        """Its id in NetBox."""
        return MachineId(self.held.id)

    @property
    def log_wanted(self) -> bool:
        """Whether a person asked for a check with its full log."""
        return self.run is not None and self.run.state == "awaiting-check"


@dataclass(frozen=True, slots=True)
class Told:
    """What follows from a check for the machine."""

    result: str
    findings: tuple[Finding, ...]
    send_log: bool = False
    certificates: bool = False
    """Whether something about its certificates is to be done."""
    wake: bool = False


def check(exchange: Exchange, ask: Check, raw: bytes, address: str) -> Answer:
    """Judge a boot check and answer it. Raises CallRefusedError."""
    del address
    challenge = opened(exchange, ask.token, tokens.Purpose.CHECK)
    if challenge.machine != ask.machine:
        raise CallRefusedError(403, "token-invalid", "the token is of another machine", stop=False, retry_after=1)
    if len(raw) > _SMALL and not challenge.send_log:
        raise CallRefusedError(413, "too-large", f"without a demand for the log the body is at most {_SMALL} bytes")
    digest = sha256(raw).digest()
    with exchange.sessions() as session:
        # Held to the end: what is read of the machine here is then read once, and its row is locked before all others.
        held = held_for_check(session, ask.machine)
        try:
            checked = _verified(exchange, session, ask, challenge, *held)
        except CallRefusedError:
            before = repeated(session, challenge.id, digest)
            if before is None:
                raise
            return before
        told = _recorded(exchange, session, checked)
        # The common case, in one transaction: the token is used if and only if the check is recorded.
        answer = None if told.certificates else _answer(exchange, checked, told)
        if not use_token(session, challenge.id, digest, exchange.clock.now(), challenge.expires, answer):
            session.rollback()
            return answered_before(session, challenge.id, digest)
        session.commit()
    if told.wake:
        exchange.wake(checked.machine)
    return answer or _with_certificates(exchange, checked, told)


def _verified(
    exchange: Exchange,
    session: Session,
    ask: Check,
    challenge: tokens.Challenge,
    held: MachineRow | None,
    install: InstallRow | None,
    state: CheckRow | None,
) -> Checked:
    """Verify the quote. Nothing is written about a quote that is not the machine's: anybody could send one."""
    machine = MachineId(ask.machine)
    says = _sayings(ask.findings)
    now = exchange.clock.now()
    declaration = runs.current_declaration(session, machine)
    if held is None or install is None or declaration is None:
        raise CallRefusedError(403, "not-enrolled", "the machine has no install to check", stop=False, retry_after=300)
    row = state if state is not None and state.run_id == install.run_id else None
    if row is not None:
        decide_baseline(session, row, declaration.baseline_decision, now)
    found = exchange.classes().get(declaration.machine_class)
    if found is None or found.attestation is None:
        raise CallRefusedError(503, "class-missing", "the machine's class is not in force", retry_after=300)
    demanded = PcrSelection.of(Bank(challenge.pcrs.bank), *challenge.pcrs.select)
    if not found.attestation.selection.same_as(demanded):
        raise CallRefusedError(
            409, "challenge-outdated", "the class asks for other PCRs now", stop=False, retry_after=1
        )
    verdict = verify_check(
        CheckEvidence(RawQuote(ask.quote.attest), ask.quote.signature, pcr_values(ask.pcrs), ask.log),
        CheckExpectation(
            lak=known_public(install.lak_public),
            nonce=challenge.nonce,
            transcript=check_transcript(ask.token, ask.certificates, ask.findings or b"", ask.log, ask.keys),
            demanded=demanded,
        ),
        baseline_from(row.baseline) if row is not None and row.baseline else None,
        found.attestation,
        _earlier(exchange, session, row, now),
    )
    if verdict.quote is None:
        raise CallRefusedError(
            403, "not-verified", "the quote is not the machine's", findings=verdict.findings, stop=False, retry_after=60
        )
    run = runs.open_run(session, machine)
    return Checked(ask, challenge, held, install, row, declaration, found, found.attestation, verdict, run, says)


def _earlier(exchange: Exchange, session: Session, row: CheckRow | None, now: datetime) -> EarlierClock | None:
    if row is None or row.clock is None:
        return None
    clock = TpmClock(row.clock, row.reset_count or 0, row.restart_count or 0, safe=True)
    if row.clock_at is None:
        return EarlierClock(clock, None)
    stepped, unnoticed = last_step(session, exchange.clock)
    comparable = not unnoticed and row.clock_at <= now and (stepped is None or row.clock_at >= stepped)
    return EarlierClock(clock, (now - row.clock_at).total_seconds() if comparable else None)


def _sayings(raw: bytes | None) -> tuple[Finding, ...]:
    """Return what the client noticed, as notes: the machine's word is told and decides nothing."""
    if not raw:
        return ()
    try:
        said: Any = json.loads(raw)
        wrapped = json_object(json.dumps({"findings": said}).encode())["findings"]
    except (ValueError, RecursionError) as error:
        raise malformed("findings: not JSON") from error
    items = wrapped if isinstance(wrapped, list) else [wrapped]
    return tuple(_saying(item) for item in items[:_MOST_SAYINGS] if item)


def _saying(item: Any) -> Finding:
    if isinstance(item, dict):
        return MachineSays(str(item.get("code", "client"))[:60], str(item.get("message", ""))[:300])
    return MachineSays("client", str(item)[:300])


def _recorded(exchange: Exchange, session: Session, checked: Checked) -> Told:
    """Write what the check showed; return what the machine is told."""
    verdict = checked.verdict
    if verdict.result is CheckResult.LOG_NEEDED or (checked.log_wanted and checked.ask.log is None):
        return Told(CheckResult.LOG_NEEDED.value, checked.says, send_log=True)
    serials = tuple(checked.ask.certificates)
    findings = [*verdict.findings, *checked.says]
    result = verdict.result
    rows = certificates_of(session, checked.machine)
    quarantined = checked.held.hold_wanted or checked.held.hold_done
    if not acceptable(rows, checked.install, serials, quarantined=quarantined):
        findings.append(CertificateNotValid(serials))
        result = CheckResult.FAILED
    now = exchange.clock.now()
    before = checked.held.check_state
    outcome = _persist(session, exchange, checked, result, findings, now)
    good = outcome.result == "ok"
    return Told(
        outcome.result,
        outcome.findings,
        certificates=good and not settled(rows, checked.install, serials, issuing(exchange), now),
        wake=before != outcome.result or bool(outcome.baseline) or checked.run is not None,
    )


def _with_certificates(exchange: Exchange, checked: Checked, told: Told) -> Answer:
    """Answer a check that something about certificates follows from: they are noted, renewed or sent again."""
    serials = tuple(checked.ask.certificates)
    if serials:
        install = checked.install
        exchange.issuer.installed(checked.machine, serials, install.ldevid_public, install.lak_public)
    certificates = renewed(
        exchange,
        checked.machine,
        checked.declaration,
        checked.machine_class,
        checked.install,
        serials,
        checked.challenge.id,
    )
    answer = _answer(exchange, checked, told, certificates)
    with exchange.sessions.begin() as session:
        keep_answer(session, checked.challenge.id, answer)
    return answer


def _persist(
    session: Session,
    exchange: Exchange,
    checked: Checked,
    result: CheckResult,
    findings: list[Finding],
    now: datetime,
) -> runs.CheckOutcome:
    due = now + exchange.settings.check_interval
    row = checked.state or begun_state(session, checked.machine, checked.install.run_id, due)
    first = row.last_at is None
    result, baseline = keep_verdict(row, checked.verdict, checked.policy, result, findings, now)
    quote = checked.verdict.quote
    assert quote is not None
    row.last_at, row.result = now, result.value
    row.due = due
    row.findings = [finding.as_dict() for finding in findings]
    row.pins = sorted(checked.ask.keys or ())
    row.pcrs, row.pcr_digest = quoted_pcrs(quote), quote.pcr_digest.hex()
    row.reset_count, row.restart_count = quote.clock.reset_count, quote.clock.restart_count
    row.clock, row.clock_at = quote.clock.clock, now
    difference: tuple[Any, ...] = ()
    if checked.verdict.difference is not None and result is not CheckResult.OK:
        difference = tuple(checked.verdict.difference.as_dict()["changes"])
    row.difference = list(difference)
    if result is CheckResult.OK:
        row.last_ok = now
        days = mark_hour(session, checked.machine, now)
        if days is not None:
            add_report(session, checked.machine, {"check_days": days}, now, checked.held)
    if first:
        burn_tickets(session, checked.machine, "the first boot check came", only_redeemed=True)
    quarantine = ""
    if any(isinstance(finding, SecureBootOff) for finding in findings) and refuses(tuple(findings)):
        quarantine = "Secure Boot is off, and the class requires it"
    outcome = runs.CheckOutcome(
        result=_word(result),
        findings=tuple(findings),
        difference=difference,
        pcr_digest=row.pcr_digest,
        at=now,
        baseline=baseline,
        full_log=checked.ask.log is not None,
        quarantine=quarantine,
    )
    runs.record_check(session, checked.held, outcome)
    if checked.log_wanted:
        add_report(session, checked.machine, {"attestation": _attestation(checked, findings, now)}, now, checked.held)
    return outcome


def _word(result: CheckResult) -> Any:
    return result.value


def _attestation(checked: Checked, findings: list[Finding], now: datetime) -> dict[str, Any]:
    quote = checked.verdict.quote
    facts = checked.verdict.facts
    return {
        "id": str(checked.challenge.id),
        "run": str(checked.install.run_id) if checked.install.run_id else None,
        "kind": "check",
        "passed": not refuses(tuple(findings)),
        "policy": checked.policy.install.boot.value,
        "findings": [finding.as_dict() for finding in findings],
        "pcr_digest": quote.pcr_digest.hex() if quote else "",
        "pcrs": quoted_pcrs(quote),
        "facts": {},
        "secure_boot": facts.secure_boot if facts else None,
        "time": stamp(now),
    }


def _answer(exchange: Exchange, checked: Checked, told: Told, certificates: Mapping[str, Any] | None = None) -> Answer:
    now = exchange.clock.now()
    pcrs = tokens.PcrDemand(checked.policy.bank.value, checked.policy.select)
    # What differs from the baseline now will differ the next time: then its log is needed at once.
    send_log = told.send_log or told.result != CheckResult.OK.value
    payload: dict[str, Any] = {
        "machine": checked.machine,
        "challenge": str(checked.challenge.id),
        "result": told.result,
        "findings": [finding.as_dict() for finding in told.findings],
        "next": fresh_check(exchange, checked.machine, pcrs, send_log=send_log),
        "next_check_in": 0 if told.send_log else next_check_in(checked.machine, now, exchange.settings.check_interval),
        "server_time": stamp(now),
    }
    if certificates is not None:
        payload["certificates"] = certificates
    if checked.ask.keys is not None and sorted(checked.ask.keys) != sorted(exchange.speaker.kids()):
        # A rotation of the service key: signed by a key that the machine pins, so that it believes the next one.
        payload["keys"] = json.loads(exchange.speaker.jwks())
    return signed_answer(exchange.speaker, "fleet-result+jwt", payload)


def next_check_in(machine: MachineId, now: datetime, interval: timedelta) -> int:
    """Return the seconds to the machine's next place in the interval: each has its own, so the load is even."""
    seconds = max(interval.total_seconds(), 1.0)
    place = (machine * 0.6180339887) % 1.0 * seconds
    wait = (place - now.timestamp()) % seconds
    if wait < seconds / 2:
        wait += seconds
    return max(1, round(wait if wait <= seconds * 1.25 else wait - seconds / 4))
