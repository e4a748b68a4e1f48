"""A proven TPM that nobody has approved: recorded, ranked, capped, and shown to a person."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.answers import signed_answer
from fleetd.app.attempt import Attempt
from fleetd.app.certificate_reports import key_row
from fleetd.app.endorsement import JudgedKey, best_key, pending_rank
from fleetd.app.exchange import Exchange
from fleetd.app.facts import dmi
from fleetd.app.whois import offered_keys, said_of
from fleetd.core.attestation.verdict import Verdict
from fleetd.core.findings.identity import KeyNotApproved, TooManyWaitingKeys
from fleetd.core.identity import shown
from fleetd.core.names import MachineId
from fleetd.core.smbios import serial_number
from fleetd.store.declared_keys import waiting_matches
from fleetd.store.endorsement_keys import evict_lowest, known_keys, mark_reported, record_proven, waiting_count
from fleetd.store.outbox import add_report
from fleetd.store.tokens import Answer


def ask_a_person(exchange: Exchange, attempt: Attempt, keys: Sequence[JudgedKey], verdict: Verdict) -> Answer:
    """Record the proven keys for a person to decide about, and tell the machine to come back."""
    now = exchange.clock.now()
    with exchange.sessions.begin() as session:
        candidates = waiting_matches(session, attempt.facts["macs"], serial_number(dmi(attempt.facts, "serial")))
        recorded = _record(exchange, session, attempt, keys, candidates)
        waited = _waited(session, keys, now)
        # Only where the claims point to one machine it is that machine that waits.
        if len(candidates) == 1 and recorded:
            _tell_run(session, candidates[0], attempt, keys, verdict, now)
            rows = known_keys(session, [key.public_hash for key in keys])
            add_report(session, candidates[0], {"eks": [key_row(row) for row in rows.values()]}, now)
            mark_reported(session, list(rows))
    for machine in candidates[:1] if len(candidates) == 1 else ():
        exchange.wake(machine)
    best = best_key(keys).public_hash
    spread = int(best[:4], 16) / 0x10000
    pause = max(1, round(exchange.settings.timing.pause_for_approval(waited, spread).total_seconds()))
    reason = "ek-approval" if recorded else TooManyWaitingKeys.code
    message = "Waiting for a person to approve this TPM in NetBox." if recorded else TooManyWaitingKeys().sentence()
    payload = {
        "state": "waiting",
        "reason": reason,
        "message": message,
        "fingerprint": shown(best),
        "retry_after": pause,
    }
    return signed_answer(exchange.speaker, "fleet-result+jwt", payload, 202, pause)


def _record(
    exchange: Exchange,
    session: Session,
    attempt: Attempt,
    keys: Sequence[JudgedKey],
    candidates: Sequence[MachineId],
) -> bool:
    now = exchange.clock.now()
    known = known_keys(session, [key.public_hash for key in keys])
    rejected = _rejected(session, attempt)
    limits = exchange.settings
    for key in keys:
        rank = pending_rank(key, candidates)
        if key.public_hash not in known:
            if waiting_count(session, attempt.address) >= limits.pending_keys_per_address * len(keys):
                return False
            if waiting_count(session) >= limits.pending_keys and not evict_lowest(session, rank):
                return False
        proven = key.as_proven(address=attempt.address, rank=rank, candidates=candidates)
        record_proven(session, proven, now, settled=key.public_hash in rejected)
    return True


def _rejected(session: Session, attempt: Attempt) -> set[str]:
    """Return the hashes of offered keys that a person has rejected, while others of the TPM wait."""
    said = said_of(session, offered_keys(attempt.ask.eks, attempt.publics))
    return {public_hash for public_hash, statuses in said.items() if "rejected" in statuses}


def _waited(session: Session, keys: Sequence[JudgedKey], now: datetime) -> timedelta:
    rows = known_keys(session, [key.public_hash for key in keys]).values()
    return now - min((row.waits_since for row in rows), default=now)


def _tell_run(
    session: Session,
    machine: MachineId,
    attempt: Attempt,
    keys: Sequence[JudgedKey],
    verdict: Verdict,
    now: datetime,
) -> None:
    run = runs.open_run(session, machine)
    if run is None:
        return
    findings = (KeyNotApproved(shown(best_key(keys).public_hash)), *verdict.findings)
    outcome = runs.EnrollmentOutcome("waiting", findings, {}, attempt.facts, now)
    runs.record_enrollment(session, machine, run.id, outcome)
