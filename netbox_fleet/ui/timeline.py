"""What happened to a machine, when, and who asked."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from netbox_fleet.models import (
    Attestation,
    Baseline,
    BootCheck,
    DeviceCertificate,
    EndorsementKey,
    Machine,
    Run,
    Statement,
)

MOST = 100
_EACH = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the timeline."""

    time: datetime
    icon: str
    what: str
    who: str = ""
    detail: str = ""
    url: str = ""


def timeline(machine: Machine, user: Any) -> list[Entry]:
    """Return the newest entries first, of the records that the user may view."""
    entries: list[Entry] = []
    if machine.intent_requested_at:
        asked = f"{machine.get_desired_action_display()} asked"
        entries.append(
            Entry(
                machine.intent_requested_at,
                "mdi-hand-pointing-right",
                asked,
                machine.intent_requested_by,
                machine.intent_reason,
            )
        )
    for make, model, order in (
        (_runs, Run, "-started"),
        (_attestations, Attestation, "-time"),
        (_certificates, DeviceCertificate, "-not_before"),
        (_keys, EndorsementKey, "-created"),
        (_checks, BootCheck, "-time"),
        (_baselines, Baseline, "-time"),
        (_statements, Statement, "-time"),
    ):
        for record in model.objects.restrict(user, "view").filter(machine=machine).order_by(order)[:_EACH]:
            entries += make(record)
    return sorted((entry for entry in entries if entry.time), key=lambda entry: entry.time, reverse=True)[:MOST]


def _runs(run: Run) -> list[Entry]:
    url = run.get_absolute_url()
    found = [Entry(run.started, "mdi-play", f"{run.get_kind_display()} began", run.requester, url=url)]
    if run.ended:
        words = f"{run.get_kind_display()} {run.get_state_display().lower()}"
        found.append(Entry(run.ended, "mdi-flag-checkered", words, detail=run.error or run.result, url=url))
    return found


def _attestations(attestation: Attestation) -> list[Entry]:
    word = "passed" if attestation.passed else "failed"
    icon = "mdi-shield-check" if attestation.passed else "mdi-shield-alert"
    what = f"{attestation.get_kind_display()} {word}"
    return [Entry(attestation.time, icon, what, detail=attestation.policy, url=attestation.get_absolute_url())]


def _certificates(certificate: DeviceCertificate) -> list[Entry]:
    url, kind = certificate.get_absolute_url(), certificate.get_kind_display()
    found = [Entry(certificate.not_before, "mdi-certificate", f"{kind} certificate issued", url=url)]
    if certificate.revoked_at:
        reason = certificate.revocation_reason
        found.append(
            Entry(
                certificate.revoked_at, "mdi-certificate-outline", f"{kind} certificate revoked", detail=reason, url=url
            )
        )
    return found


def _keys(key: EndorsementKey) -> list[Entry]:
    url = key.get_absolute_url()
    found = [Entry(key.created, "mdi-key-plus", f"Key {key} first seen", detail=key.first_seen_address, url=url)]
    if key.decided_at:
        what = f"Key {key} {key.get_status_display().lower()}"
        found.append(Entry(key.decided_at, "mdi-key-star", what, key.decided_by, key.decision_reason, url))
    return found


def _checks(check: BootCheck) -> list[Entry]:
    what = f"Boot check {check.get_result_display().lower()}"
    return [Entry(check.time, "mdi-heart-pulse", what, url=check.get_absolute_url())]


def _baselines(baseline: Baseline) -> list[Entry]:
    url = baseline.get_absolute_url()
    found = [Entry(baseline.time, "mdi-file-compare", f"Baseline {baseline.digest[:12]} offered", url=url)]
    if baseline.decided_at:
        word = "accepted" if baseline.decision == "accept" else "declined"
        found.append(
            Entry(
                baseline.decided_at,
                "mdi-file-check",
                f"Baseline {baseline.digest[:12]} {word}",
                baseline.decided_by,
                baseline.decision_reason,
                url,
            )
        )
    return found


def _statements(statement: Statement) -> list[Entry]:
    words = [statement.reason, statement.get_state_display(), statement.answer]
    what = " ".join(word for word in (str(statement.get_kind_display()), statement.subject) if word)
    detail = ": ".join(str(word) for word in words if word)
    return [Entry(statement.time, "mdi-account-voice", what, statement.by, detail, statement.get_absolute_url())]
