from django.db import models
from django.utils.translation import gettext_lazy as _
from netbox.models import NetBoxModel

from netbox_fleet.choices import FINAL_RUN_STATES, IntentKindChoices, RunStateChoices


class Run(NetBoxModel):
    """The execution of one intent; its UUID is the intent's, and a final run never changes."""

    run_id = models.UUIDField(unique=True, verbose_name=_("run ID"))
    machine = models.ForeignKey(
        "netbox_fleet.Machine", on_delete=models.SET_NULL, related_name="runs", null=True, blank=True
    )
    machine_name = models.CharField(max_length=63, help_text=_("Node name at the time; outlives the machine's record"))
    kind = models.CharField(max_length=20, choices=IntentKindChoices)
    requester = models.CharField(max_length=150, blank=True)
    state = models.CharField(max_length=20, choices=RunStateChoices, default=RunStateChoices.RUNNING)
    percent = models.PositiveSmallIntegerField(null=True, blank=True)
    steps = models.JSONField(default=list, blank=True)
    result = models.CharField(max_length=500, blank=True)
    error = models.CharField(max_length=2000, blank=True)
    evidence = models.JSONField(default=dict, blank=True)
    started = models.DateTimeField(null=True, blank=True)
    ended = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-started", "-pk")
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        indexes = [models.Index(fields=("machine", "-started")), models.Index(fields=("state",))]

    def __str__(self):
        return f"{self.get_kind_display()} {self.machine_name} {str(self.run_id)[:8]}"

    def get_kind_color(self):
        return IntentKindChoices.colors.get(self.kind)

    def get_state_color(self):
        return RunStateChoices.colors.get(self.state)

    @property
    def final(self) -> bool:
        """Whether the run has ended and can never change."""
        return self.state in FINAL_RUN_STATES
