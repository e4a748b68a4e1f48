from django.db import models
from django.utils.translation import gettext_lazy as _

from netbox_fleet.choices import BaselineDecisionChoices, BaselineStateChoices
from netbox_fleet.models.guarded import GuardedModel


class Baseline(GuardedModel):
    """Boot measurements of one machine: accepted as good, or offered for a person's word."""

    machine = models.ForeignKey("netbox_fleet.Machine", on_delete=models.CASCADE, related_name="baselines")
    digest = models.CharField(max_length=128)
    state = models.CharField(max_length=20, choices=BaselineStateChoices, default=BaselineStateChoices.OFFERED)
    pcrs = models.JSONField(default=dict, blank=True, verbose_name=_("PCRs"))
    difference = models.JSONField(default=list, blank=True, help_text=_("What differs from the baseline before"))
    time = models.DateTimeField()
    decision = models.CharField(max_length=10, choices=BaselineDecisionChoices, blank=True, editable=False)
    decided_by = models.CharField(max_length=150, blank=True, editable=False)
    decided_at = models.DateTimeField(null=True, blank=True, editable=False)
    decision_reason = models.CharField(max_length=500, blank=True, editable=False)

    guarded = ("decision", "decided_by", "decided_at", "decision_reason")

    class Meta:
        ordering = ("-time", "-pk")
        verbose_name = _("baseline")
        verbose_name_plural = _("baselines")
        constraints = [models.UniqueConstraint(fields=("machine", "digest"), name="netbox_fleet_baseline_once")]
        permissions = [("accept_baseline", "Accept or decline an offered baseline")]

    def __str__(self):
        return self.digest[:12]

    def get_state_color(self):
        return BaselineStateChoices.colors.get(self.state)

    def get_decision_color(self):
        return BaselineDecisionChoices.colors.get(self.decision)

    @property
    def open(self) -> bool:
        """Whether it waits for a person."""
        return self.state == BaselineStateChoices.OFFERED and not self.decision
