"""Apply one report to its machine.

Observations go past the change log on purpose: they come hourly from every machine, are no person's change, and
would wake the declarations feed. What concerns an intent or the Device is saved and logged like any change.
"""

from datetime import timedelta
from typing import Any

from dcim.choices import DeviceStatusChoices

from netbox_fleet.actions import intents, retire
from netbox_fleet.choices import (
    FINAL_RUN_STATES,
    BaselineStateChoices,
    IntentStateChoices,
    PhaseChoices,
    StatementStateChoices,
)
from netbox_fleet.models import Attestation, Baseline, BootCheck, DeviceCertificate, Machine, Run, Statement
from netbox_fleet.reports import keys
from netbox_fleet.reports.schema import last_day

KEPT_DAYS = 35

_OBSERVED = {
    "phase": "phase",
    "since": "phase_since",
    "deadline": "phase_deadline",
    "percent": "percent",
    "message": "message",
    "findings": "findings",
    "last_seen": "last_seen",
    "last_check": "last_check",
    "check_result": "check_result",
    "drift": "drift",
    "installed_digest": "installed_digest",
}
_ACTIVATED = frozenset(
    {
        DeviceStatusChoices.STATUS_PLANNED,
        DeviceStatusChoices.STATUS_STAGED,
        DeviceStatusChoices.STATUS_OFFLINE,
        DeviceStatusChoices.STATUS_FAILED,
    }
)


def apply(machine: Machine, row: dict[str, Any]) -> None:
    """Apply a report whose sequence number is new; call inside a transaction that holds the machine's lock."""
    observed = {field: row[name] for name, field in _OBSERVED.items() if name in row}
    if observed.get("check_result", "") is None:
        observed["check_result"] = ""
    if "check_days" in row:
        observed["check_days"] = merged_days(machine.check_days, row["check_days"])
    observed["report_seq"] = row["seq"]
    for name, value in observed.items():
        setattr(machine, name, value)
    Machine.objects.filter(pk=machine.pk).update(**observed)
    if row.get("run"):
        _run(machine, row["run"])
    if row.get("attestation"):
        _attestation(machine, row["attestation"])
    for certificate in row.get("certificates") or []:
        _certificate(machine, certificate)
    for key in row.get("eks") or []:
        keys.note(key, machine=machine, candidates=[])
    if row.get("boot_check"):
        _boot_check(machine, row["boot_check"])
    if row.get("baseline"):
        _baseline(machine, row["baseline"])
    for answer in row.get("statements") or []:
        _answered(machine, answer)
    if row.get("intent"):
        _intent(machine, row["intent"])
    if row.get("phase") == PhaseChoices.ACTIVE:
        _activate(machine)


def merged_days(kept: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    """Put the reported hours over the kept ones and drop days past their use (30 are drawn) or not come yet."""
    last = last_day()
    first = last - timedelta(days=KEPT_DAYS)
    return {
        day: hours for day, hours in sorted({**kept, **new}.items()) if first.isoformat() <= day <= last.isoformat()
    }


def _run(machine: Machine, data: dict[str, Any]) -> None:
    run = Run.objects.filter(run_id=data["id"]).first()
    values = {name: value for name, value in data.items() if name not in {"id", "kind", "requester"}}
    if run is None:
        Run.objects.create(
            run_id=data["id"],
            machine=machine,
            machine_name=machine.node_name,
            kind=data["kind"],
            requester=data.get("requester") or "",
            **values,
        )
    elif not run.final and run.machine_id == machine.pk:
        Run.objects.filter(pk=run.pk).update(**values)


def _attestation(machine: Machine, data: dict[str, Any]) -> None:
    values = {name: value for name, value in data.items() if name not in {"id", "run"}}
    run = Run.objects.filter(run_id=data["run"], machine=machine).first() if data.get("run") else None
    Attestation.objects.get_or_create(
        attestation_id=data["id"],
        defaults={"machine": machine, "machine_name": machine.node_name, "run": run, **values},
    )


def _certificate(machine: Machine, data: dict[str, Any]) -> None:
    certificate, created = DeviceCertificate.objects.get_or_create(
        fingerprint=data["fingerprint"],
        defaults={"machine": machine, "machine_name": machine.node_name, **data},
    )
    if not created and data.get("revoked_at") and certificate.machine_id in (None, machine.pk):
        DeviceCertificate.objects.filter(pk=certificate.pk).update(
            revoked_at=data["revoked_at"], revocation_reason=data.get("revocation_reason") or ""
        )


def _boot_check(machine: Machine, data: dict[str, Any]) -> None:
    values = {name: value for name, value in data.items() if name != "time"}
    BootCheck.objects.get_or_create(machine=machine, time=data["time"], defaults=values)


def _baseline(machine: Machine, data: dict[str, Any]) -> None:
    values = {name: value for name, value in data.items() if name != "digest"}
    baseline, created = Baseline.objects.get_or_create(machine=machine, digest=data["digest"], defaults=values)
    if data["state"] == BaselineStateChoices.ACCEPTED:
        others = Baseline.objects.filter(machine=machine, state=BaselineStateChoices.ACCEPTED)
        others.exclude(pk=baseline.pk).update(state=BaselineStateChoices.SUPERSEDED)
        if not created:
            Baseline.objects.filter(pk=baseline.pk).update(state=BaselineStateChoices.ACCEPTED)
        return
    others = Baseline.objects.filter(machine=machine, state=BaselineStateChoices.OFFERED)
    others.exclude(pk=baseline.pk).update(state=BaselineStateChoices.SUPERSEDED)
    if not created and baseline.state == BaselineStateChoices.SUPERSEDED:
        # What was replaced once is offered afresh: the word that was given on it then is used up.
        fresh = {"decision": "", "decided_by": "", "decided_at": None, "decision_reason": ""}
        Baseline.objects.filter(pk=baseline.pk).update(**values, **fresh)


def _answered(machine: Machine, data: dict[str, Any]) -> None:
    """Write the service's answer on a statement; the first answer counts, and the change log shows it."""
    given = Statement.objects.filter(
        statement_id=data["id"], machine=machine, state=StatementStateChoices.GIVEN
    ).first()
    if given is not None:
        given.snapshot()
        given.state, given.answer = data["state"], data.get("message") or ""
        given.save()


def _intent(machine: Machine, data: dict[str, Any]) -> None:
    if machine.intent_id != data["id"]:
        return
    machine.snapshot()
    if data["state"] in FINAL_RUN_STATES:
        intents.clear(machine, data["state"])
        retire.resume(machine)
    elif machine.intent_state == IntentStateChoices.SET:
        machine.intent_state = IntentStateChoices.RUNNING
    else:
        return
    machine.save_intent()


def _activate(machine: Machine) -> None:
    """Move the Device to active, but never out of decommissioning or a status that an owner chose otherwise."""
    device = machine.device
    if device.status in _ACTIVATED:
        device.snapshot()
        device.status = DeviceStatusChoices.STATUS_ACTIVE
        device.save()
