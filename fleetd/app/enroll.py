"""Enrollment: from what a machine sends to what it is told, in the order cheap before dear, identity before policy."""

import hmac
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from fleetd.app import runs
from fleetd.app.answers import problem_answer, signed_answer
from fleetd.app.attempt import Attempt, Subject, activated, subject_of
from fleetd.app.challenge import unique_for
from fleetd.app.endorsement import JudgedKey, best_key, judge_keys, key_findings
from fleetd.app.enrollment_records import enrollment_row, keep_keys, remember_contradiction, report_of, tell_netbox
from fleetd.app.exchange import Exchange
from fleetd.app.facts import contradictions
from fleetd.app.messages import Enroll
from fleetd.app.refusals import CallRefusedError
from fleetd.app.single_use import opened, repeated, take
from fleetd.app.waiting import ask_a_person
from fleetd.app.whois import offered_keys, who_is
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.policy import AttestationPolicy, EkCertificate, InstallBoot, InstallPolicy
from fleetd.core.attestation.transcript import (
    Purpose,
    seal_key,
    session_key,
)
from fleetd.core.attestation.verdict import (
    BootWeight,
    EnrollmentExpectation,
    Verdict,
    verify_enrollment,
)
from fleetd.core.certificates.order import Issued, IssueOrder
from fleetd.core.exchange import tokens
from fleetd.core.exchange.sealing import NONCE, seal
from fleetd.core.findings import Finding, refuses
from fleetd.core.findings.identity import ActivationFailed, MachineUnknown
from fleetd.core.identity import Identity
from fleetd.core.names import IntentKind
from fleetd.store.certificates import supersede_other_keys
from fleetd.store.endorsement_keys import bind, record_proven
from fleetd.store.tokens import Answer, keep_answer

UNKNOWN_POLICY = AttestationPolicy(
    install=InstallPolicy(boot=InstallBoot.NETWORK_TRUSTED), ek_certificate=EkCertificate.OPTIONAL
)
"""What the verdict about a machine that nobody knows yet is made by: who it is, not what it runs."""


def enroll(exchange: Exchange, ask: Enroll, raw: bytes, address: str) -> Answer:
    """Judge an enrollment and answer it; identical bytes get the identical answer. Raises CallRefusedError."""
    challenge = opened(exchange, ask.token, tokens.Purpose.ENROLL)
    digest = sha256(raw).digest()
    with exchange.sessions() as session:
        before = repeated(session, challenge.id, digest)
    if before is not None:
        return before
    attempt = activated(ask, challenge, address)
    take(exchange, challenge, digest)
    try:
        answer = _judged(exchange, attempt)
    except CallRefusedError as refusal:
        answer = problem_answer(refusal)
    with exchange.sessions.begin() as session:
        keep_answer(session, challenge.id, answer)
    return answer


def _judged(exchange: Exchange, attempt: Attempt) -> Answer:
    with exchange.sessions() as session:
        proven = who_is(session, offered_keys(attempt.ask.eks, attempt.publics))
        subject = subject_of(exchange, session, proven)
        known = proven.machine is not None or bool(proven.findings)
        if subject is not None and unique_for(session, proven, attempt.publics) != attempt.challenge.lak_unique:
            raise _outdated()
    policy = subject.policy if subject else UNKNOWN_POLICY
    demanded = PcrSelection.of(Bank(attempt.challenge.pcrs.bank), *attempt.challenge.pcrs.select)
    if subject is not None and not policy.selection.same_as(demanded):
        raise _outdated()
    if subject is None:
        policy = replace(policy, bank=Bank(attempt.challenge.pcrs.bank), select=attempt.challenge.pcrs.select)
    keys = judge_keys(exchange, attempt.ask.eks, attempt.publics, subject.machine_class if subject else None)
    verdict = verify_enrollment(
        attempt.evidence,
        EnrollmentExpectation(attempt.challenge.nonce, attempt.transcript, demanded),
        policy,
        subject.weight if subject else BootWeight.REFUSES,
    )
    same_lak = verdict.lak is not None and hmac.compare_digest(verdict.lak.name(), attempt.challenge.lak_name)
    if verdict.quote is None or not same_lak:
        findings = (*verdict.findings, *(() if same_lak else (ActivationFailed(),)))
        return _refused(exchange, attempt, subject, (*key_findings(keys), *findings), verdict)
    if not known:
        return ask_a_person(exchange, attempt, keys, verdict)
    if subject is None:
        findings = proven.findings or (MachineUnknown(proven.machine or 0),)
        remember_contradiction(exchange, attempt, keys, findings, proven)
        return _stranger(exchange, proven, findings)
    return _decide(exchange, attempt, subject, proven, keys, verdict)


def _decide(
    exchange: Exchange,
    attempt: Attempt,
    subject: Subject,
    proven: Identity,
    keys: Sequence[JudgedKey],
    verdict: Verdict,
) -> Answer:
    """Weigh everything that is known of an identified machine."""
    with exchange.sessions() as session:
        against = contradictions(session, subject.machine, subject.declaration, attempt.facts)
    findings = (*key_findings(keys), *verdict.findings, *against)
    if refuses(findings):
        return _refused(exchange, attempt, subject, findings, verdict)
    issued = _certificates(exchange, attempt, subject, keys)
    now = exchange.clock.now()
    with exchange.sessions.begin() as session:
        for key in keys:
            record_proven(session, key.as_proven(address=attempt.address), now, settled=True)
        for public_hash in proven.to_bind:
            if not bind(session, public_hash, subject.machine, now):
                raise CallRefusedError(409, "key-bound-meanwhile", "the key was bound meanwhile", retry_after=5)
        session.add(enrollment_row(attempt, subject, keys, verdict, findings, now))
        keep_keys(session, attempt, subject, keys, now)
        if subject.run is not None and subject.run.kind is IntentKind.ATTEST:
            # A provision's come first into use when the machine is installed; until then those before count too.
            supersede_other_keys(session, subject.machine, (attempt.ask.ldevid.public, attempt.ask.lak), now)
        outcome = runs.EnrollmentOutcome(
            "passed", findings, report_of(attempt, subject, verdict, findings, now), attempt.facts, now
        )
        runs.record_enrollment(session, subject.machine, subject.run.id if subject.run else None, outcome)
        tell_netbox(session, subject.machine, keys, proven, issued, now)
    exchange.wake(subject.machine)
    return _result(exchange, attempt, subject, issued)


def _certificates(exchange: Exchange, attempt: Attempt, subject: Subject, keys: Sequence[JudgedKey]) -> Issued | None:
    """Return what the run is owed; the same keys keep the certificates that they have."""
    run = subject.run
    if run is None or not run.kind.issues:
        return None
    certified = best_key(keys)
    order = IssueOrder(
        enrollment=attempt.challenge.id,
        machine=subject.machine,
        node_name=subject.declaration.node_name,
        device_serial=subject.declaration.device_serial,
        machine_class=subject.machine_class,
        lak_public=attempt.ask.lak,
        ldevid_public=attempt.ask.ldevid.public,
        ek_public=certified.public.raw,
        ek_certificate=certified.certificate,
        facts=attempt.facts,
    )
    return exchange.issuer.issue(order)


def _result(exchange: Exchange, attempt: Attempt, subject: Subject, issued: Issued | None) -> Answer:
    enrollment = attempt.challenge.id
    run = subject.run.id if subject.run else None
    inner: dict[str, Any] = {
        "enrollment": str(enrollment),
        "machine": subject.machine,
        "node_name": subject.declaration.node_name,
        "session_key": b64encode(session_key(exchange.server_key, enrollment)).decode(),
    }
    outer: dict[str, Any] = {"state": "verified", "enrollment": str(enrollment)}
    if run is not None:
        inner["run"] = outer["run"] = str(run)
    if issued is not None:
        inner["certificates"] = issued.certificates.as_dict()
    key = seal_key(attempt.secrets, attempt.transcript)
    content = json.dumps(inner).encode()
    envelope = seal(key, exchange.random.bytes(NONCE), content, Purpose.RESULT, enrollment, run)
    outer["sealed"] = b64encode(envelope).decode()
    return signed_answer(exchange.speaker, "fleet-result+jwt", outer)


def _refused(
    exchange: Exchange, attempt: Attempt, subject: Subject | None, findings: Sequence[Finding], verdict: Verdict
) -> Answer:
    """Refuse; a machine that is known may come back as often as its run allows."""
    now = exchange.clock.now()
    stop, retry_after = False, 60
    if subject is not None:
        with exchange.sessions.begin() as session:
            told = runs.EnrollmentOutcome(
                "refused", tuple(findings), report_of(attempt, subject, verdict, findings, now), attempt.facts, now
            )
            run = subject.run.id if subject.run else None
            answer = runs.record_enrollment(session, subject.machine, run, told, exchange.settings.timing)
        stop = answer.stop
        if answer.retry_after is not None:
            retry_after = max(1, int(answer.retry_after.total_seconds()))
        exchange.wake(subject.machine)
    return _refusal(findings, stop=stop, retry_after=retry_after)


def _stranger(exchange: Exchange, proven: Identity, findings: Sequence[Finding]) -> Answer:
    """Refuse a TPM that is known but belongs to no machine that may enroll; tell the run that waits for it."""
    now = exchange.clock.now()
    machine = proven.about
    if machine is not None and proven.contradicts:
        with exchange.sessions.begin() as session:
            runs.quarantine(session, machine, runs.KEYS_CONTRADICT, now)
            run = runs.open_run(session, machine)
            if run is not None:
                told = runs.EnrollmentOutcome("refused", tuple(findings), {}, {}, now)
                runs.record_enrollment(session, machine, run.id, told, exchange.settings.timing)
        exchange.wake(machine)
    return _refusal(findings, stop=proven.contradicts, retry_after=60)


def _refusal(findings: Sequence[Finding], *, stop: bool, retry_after: int) -> Answer:
    return problem_answer(
        CallRefusedError(
            403,
            "not-verified",
            "the machine was not verified",
            findings=findings,
            stop=stop,
            retry_after=None if stop else retry_after,
        )
    )


def _outdated() -> CallRefusedError:
    return CallRefusedError(
        409,
        "challenge-outdated",
        "what is asked of this machine has changed; ask for another challenge",
        stop=False,
        retry_after=1,
    )
