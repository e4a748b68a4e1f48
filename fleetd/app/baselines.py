"""Baselines of boots: the first is taken, a changed one is offered, and a person decides."""

import hashlib
import json
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app.stamps import stamp
from fleetd.core.attestation.baseline import Baseline, baseline_from, changed_pcrs
from fleetd.core.attestation.policy import AttestationPolicy
from fleetd.core.attestation.verdict import CheckResult, CheckVerdict
from fleetd.core.declaration import BaselineDecision
from fleetd.core.findings import Finding
from fleetd.core.findings.checks import BootedOtherThanRedeemed
from fleetd.core.names import MachineId
from fleetd.store import audit
from fleetd.store.checks import CheckRow
from fleetd.store.outbox import add_report


def digest_of(baseline: Baseline) -> str:
    """Return what names a baseline in NetBox: SHA-256 of its JSON form, hex."""
    return hashlib.sha256(json.dumps(baseline.as_dict(), sort_keys=True).encode()).hexdigest()


def keep_verdict(
    row: CheckRow,
    verdict: CheckVerdict,
    policy: AttestationPolicy,
    result: CheckResult,
    findings: list[Finding],
    now: datetime,
) -> tuple[CheckResult, dict[str, Any]]:
    """Take or offer the baseline of a verified check; return the result and the `baseline` of a report.

    A first baseline must be what the seed was redeemed with: where it is not, it is offered to a person instead.
    """
    if verdict.baseline is None or result is CheckResult.FAILED:
        return result, {}
    if row.baseline is None and result is CheckResult.OK:
        changed = _unlike_redemption(row, verdict.baseline, policy)
        if not changed:
            _put(row, verdict.baseline, now)
            return result, accepted_report(verdict.baseline, now)
        findings.append(BootedOtherThanRedeemed(changed))
        result = CheckResult.DRIFTED
    row.offered, row.offered_digest = verdict.baseline.as_dict(), digest_of(verdict.baseline)
    return result, offered_report(verdict, now)


def _unlike_redemption(row: CheckRow, baseline: Baseline, policy: AttestationPolicy) -> tuple[int, ...]:
    redeemed = (row.redeemed_pcrs or {}).get(policy.bank.value)
    if not redeemed:
        return ()
    values = {int(pcr): bytes.fromhex(value) for pcr, value in redeemed.items()}
    return tuple(pcr for pcr in changed_pcrs(baseline, values, policy.check.baseline) if pcr in values)


def _put(row: CheckRow, baseline: Baseline, now: datetime) -> None:
    row.baseline, row.baseline_digest, row.baseline_at = baseline.as_dict(), digest_of(baseline), now
    row.offered, row.offered_digest = None, ""


def accepted_report(baseline: Baseline, now: datetime) -> dict[str, Any]:
    """Return the `baseline` of a report about one in force."""
    return {
        "digest": digest_of(baseline),
        "state": "accepted",
        "pcrs": baseline.as_dict()["pcrs"],
        "difference": [],
        "time": stamp(now),
    }


def offered_report(verdict: CheckVerdict, now: datetime) -> dict[str, Any]:
    """Return the `baseline` of a report about one that a person shall decide on."""
    assert verdict.baseline is not None
    difference = verdict.difference.as_dict()["changes"] if verdict.difference else []
    return {
        "digest": digest_of(verdict.baseline),
        "state": "offered",
        "pcrs": verdict.baseline.as_dict()["pcrs"],
        "difference": difference,
        "time": stamp(now),
    }


def decide_baseline(session: Session, row: CheckRow, decision: BaselineDecision | None, now: datetime) -> None:
    """Put an accepted baseline in force; what was declined stays offered to nobody."""
    if decision is None or not row.offered or decision.digest != row.offered_digest:
        return
    machine = MachineId(row.machine_id)
    if decision.accepted:
        baseline = baseline_from(row.offered)
        _put(row, baseline, now)
        add_report(session, machine, {"baseline": accepted_report(baseline, now)}, now)
        audit.record(session, now, "baseline-accepted", who=decision.by, machine=machine, digest=decision.digest)
    else:
        row.offered, row.offered_digest = None, ""
