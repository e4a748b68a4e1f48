from django.db import models
from django.utils.translation import gettext_lazy as _
from netbox.models import NetBoxModel

from netbox_fleet.choices import CheckChoices


class BootCheck(NetBoxModel):
    """A boot check whose result differs from the one before; the hours in between are a bitmap on the machine."""

    machine = models.ForeignKey("netbox_fleet.Machine", on_delete=models.CASCADE, related_name="boot_checks")
    time = models.DateTimeField()
    result = models.CharField(max_length=20, choices=CheckChoices)
    findings = models.JSONField(default=list, blank=True)
    difference = models.JSONField(default=list, blank=True, help_text=_("PCRs and events that differ"))

    class Meta:
        ordering = ("-time", "-pk")
        verbose_name = _("boot check")
        verbose_name_plural = _("boot checks")
        constraints = [models.UniqueConstraint(fields=("machine", "time"), name="netbox_fleet_bootcheck_once")]

    def __str__(self):
        return f"{self.time:%Y-%m-%d %H:%M}"

    def get_result_color(self):
        return CheckChoices.colors.get(self.result)
