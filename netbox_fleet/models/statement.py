from django.db import models
from django.utils.translation import gettext_lazy as _
from netbox.models import NetBoxModel

from netbox_fleet.choices import StatementKindChoices, StatementStateChoices


class Statement(NetBoxModel):
    """What a person said of a machine that only a person can say; written by the actions, answered by the service."""

    statement_id = models.UUIDField(unique=True, verbose_name=_("statement ID"))
    machine = models.ForeignKey(
        "netbox_fleet.Machine", on_delete=models.SET_NULL, related_name="statements", null=True, blank=True
    )
    machine_name = models.CharField(max_length=63)
    kind = models.CharField(max_length=20, choices=StatementKindChoices)
    subject = models.CharField(max_length=200, blank=True, help_text=_("The disk that a word is given about"))
    intent_id = models.UUIDField(
        null=True, blank=True, verbose_name=_("intent ID"), help_text=_("The wipe or retirement that it is said in")
    )
    by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    time = models.DateTimeField()
    state = models.CharField(max_length=20, choices=StatementStateChoices, default=StatementStateChoices.GIVEN)
    answer = models.CharField(max_length=500, blank=True, help_text=_("What the service says of it"))

    class Meta:
        ordering = ("-time", "-pk")
        verbose_name = _("statement")
        verbose_name_plural = _("statements")
        indexes = [models.Index(fields=("machine", "state"))]

    def __str__(self):
        return f"{self.get_kind_display()} {self.machine_name}"

    def get_kind_color(self):
        return StatementKindChoices.colors.get(self.kind)

    def get_state_color(self):
        return StatementStateChoices.colors.get(self.state)
