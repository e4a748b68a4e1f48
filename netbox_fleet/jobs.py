"""The daily clean-up of old records."""

from datetime import timedelta
from typing import Any

from core.choices import JobIntervalChoices
from django.utils import timezone
from netbox.jobs import JobRunner, system_job
from netbox.plugins import get_plugin_config

from netbox_fleet.choices import FINAL_RUN_STATES, IntentKindChoices
from netbox_fleet.models import Attestation, BootCheck, Machine, Run


def remove_old_records() -> dict[str, int]:
    """Delete final runs, attestations and boot checks past their retention; return how many of each.

    Kept whatever their age: the newest of each kind per machine, runs that an intent still names (their UUID is what
    keeps a spent intent from starting again), and the evidence of wipes and retirements.
    """
    named = Machine.objects.exclude(intent_id=None).values("intent_id")
    evidence = (IntentKindChoices.WIPE, IntentKindChoices.RETIRE)
    removed = {}
    for model, setting, moment, extra in (
        (Attestation, "attestation_retention_days", "time", {}),
        (BootCheck, "boot_check_retention_days", "time", {}),
        (Run, "run_retention_days", "ended", {"state__in": FINAL_RUN_STATES}),
    ):
        days = get_plugin_config("netbox_fleet", setting)
        if not days:
            continue
        old = model.objects.filter(**{f"{moment}__lt": timezone.now() - timedelta(days=days)}, **extra)
        newest = model.objects.order_by("machine_id", f"-{moment}", "-pk").distinct("machine_id").values("pk")
        old = old.exclude(pk__in=list(newest.values_list("pk", flat=True)))
        if model is Run:
            old = old.exclude(run_id__in=named).exclude(kind__in=evidence)
        removed[model.__name__] = old.delete()[1].get(f"netbox_fleet.{model.__name__}", 0)
    return removed


@system_job(interval=JobIntervalChoices.INTERVAL_DAILY)
class FleetRetentionJob(JobRunner):
    """Removes what is past its retention, once a day."""

    class Meta:
        name = "Fleet retention"

    def run(self, *args: Any, **kwargs: Any) -> None:
        for name, count in remove_old_records().items():
            self.logger.info("Removed %d of %s", count, name)
