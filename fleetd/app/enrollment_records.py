"""What is kept of an enrollment, and what NetBox is told of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app.attempt import Attempt, Subject
from fleetd.app.certificate_reports import certificate_rows, key_row
from fleetd.app.endorsement import JudgedKey, best_key, pending_rank
from fleetd.app.exchange import Exchange
from fleetd.app.pcrs import quoted_pcrs
from fleetd.app.stamps import stamp
from fleetd.app.whois import offered_keys, said_of
from fleetd.core.attestation.verdict import Verdict
from fleetd.core.certificates.order import Issued
from fleetd.core.findings import Finding, refuses
from fleetd.core.identity import Identity
from fleetd.core.names import IntentKind, MachineId
from fleetd.store.endorsement_keys import known_keys, mark_reported, record_proven
from fleetd.store.enrollments import EnrollmentRow, InstallRow, current_install, install_of_run, put_install
from fleetd.store.outbox import add_report


def enrollment_row(
    attempt: Attempt,
    subject: Subject,
    keys: Sequence[JudgedKey],
    verdict: Verdict,
    findings: Sequence[Finding],
    now: datetime,
) -> EnrollmentRow:
    """Return the row of a verified enrollment."""
    assert verdict.quote is not None
    return EnrollmentRow(
        id=attempt.challenge.id,
        machine_id=subject.machine,
        run_id=subject.run.id if subject.run else None,
        address=attempt.address,
        made=now,
        verified=True,
        ek_hash=best_key(keys).public_hash,
        ek_name=best_key(keys).public.name(),
        lak_public=attempt.ask.lak,
        lak_name=attempt.challenge.lak_name,
        lak_unique=attempt.challenge.lak_unique,
        ldevid_public=attempt.ask.ldevid.public,
        ldevid_private=attempt.ask.ldevid.private,
        facts=attempt.facts,
        findings=[finding.as_dict() for finding in findings],
        pcrs=quoted_pcrs(verdict.quote),
        pcr_digest=verdict.quote.pcr_digest.hex(),
        boot_judged=verdict.boot_judged,
        secure_boot=verdict.secure_boot,
        counter=0,
        closed=False,
        reported=False,
    )


def report_of(
    attempt: Attempt, subject: Subject, verdict: Verdict, findings: Sequence[Finding], now: datetime
) -> dict[str, Any]:
    """Return the `attestation` of a report to NetBox."""
    return {
        "id": str(attempt.challenge.id),
        "run": str(subject.run.id) if subject.run else None,
        "kind": "enroll",
        "passed": not refuses(tuple(findings)),
        "policy": subject.policy.install.boot.value,
        "findings": [finding.as_dict() for finding in findings],
        "pcr_digest": verdict.quote.pcr_digest.hex() if verdict.quote else "",
        "pcrs": quoted_pcrs(verdict.quote),
        "facts": attempt.facts,
        "secure_boot": verdict.secure_boot,
        "time": stamp(now),
    }


def keep_keys(session: Session, attempt: Attempt, subject: Subject, keys: Sequence[JudgedKey], now: datetime) -> None:
    """Stage the keys of a provision; take those of an attest where nothing is installed or they are the same."""
    run = subject.run
    if run is None or not run.kind.issues:
        return
    provision = run.kind is IntentKind.PROVISION
    present = install_of_run(session, subject.machine, run.id) if provision else None
    # After the erase the run's keys stand at their place already.
    staged = provision and (present is None or present.staged)
    if not provision:
        current = current_install(session, subject.machine)
        if current is not None and current.lak_name == attempt.challenge.lak_name:
            return
    put_install(
        session,
        InstallRow(
            machine_id=subject.machine,
            staged=staged,
            run_id=run.id,
            enrollment_id=attempt.challenge.id,
            ek_hash=best_key(keys).public_hash,
            lak_public=attempt.ask.lak,
            lak_name=attempt.challenge.lak_name,
            lak_unique=attempt.challenge.lak_unique,
            ldevid_public=attempt.ask.ldevid.public,
            ldevid_private=attempt.ask.ldevid.private,
            since=now,
        ),
    )


def tell_netbox(
    session: Session,
    machine: MachineId,
    keys: Sequence[JudgedKey],
    proven: Identity,
    issued: Issued | None,
    now: datetime,
) -> None:
    """Report certificates, and what is known of keys that were approved by their hash alone."""
    if issued is not None:
        add_report(session, machine, {"certificates": certificate_rows(issued)}, now)
    if proven.to_bind:
        rows = known_keys(session, proven.to_bind)
        add_report(session, machine, {"eks": [key_row(row) for row in rows.values()]}, now)
    mark_reported(session, [key.public_hash for key in keys])


def remember_contradiction(
    exchange: Exchange,
    attempt: Attempt,
    keys: Sequence[JudgedKey],
    findings: Sequence[Finding],
    proven: Identity,
) -> None:
    """Record proven keys that contradict, so that NetBox shows why the machine is refused.

    Keys that neither the ledger nor NetBox knows are left out: a TPM makes as many as it likes, and one that is refused
    would fill the ledger, and NetBox, with what nobody counts.
    """
    now = exchange.clock.now()
    with exchange.sessions.begin() as session:
        spoken_of = _spoken_of(session, attempt)
        for key in (key for key in keys if key.public_hash in spoken_of):
            rank = pending_rank(key, ())
            told = key.as_proven(address=attempt.address, rank=rank, extra=findings)
            record_proven(session, told, now, settled=proven.rejected)
        if proven.about is not None:
            rows = known_keys(session, [key.public_hash for key in keys])
            add_report(session, proven.about, {"eks": [key_row(row) for row in rows.values()]}, now)
            mark_reported(session, list(rows))


def _spoken_of(session: Session, attempt: Attempt) -> set[str]:
    """Return the hashes of the offered keys that the ledger or NetBox knows."""
    offered = offered_keys(attempt.ask.eks, attempt.publics)
    return set(said_of(session, offered)) | set(known_keys(session, [key.public_hash for key in offered]))
