from django.db import models
from django.utils.translation import gettext_lazy as _
from netbox.models import NetBoxModel

from netbox_fleet.choices import AttestationKindChoices


class Attestation(NetBoxModel):
    """The verdict of one TPM exchange, with its findings and facts; never changed."""

    attestation_id = models.UUIDField(unique=True, verbose_name=_("attestation ID"))
    machine = models.ForeignKey(
        "netbox_fleet.Machine", on_delete=models.SET_NULL, related_name="attestations", null=True, blank=True
    )
    machine_name = models.CharField(max_length=63)
    run = models.ForeignKey(
        "netbox_fleet.Run", on_delete=models.SET_NULL, related_name="attestations", null=True, blank=True
    )
    kind = models.CharField(max_length=20, choices=AttestationKindChoices, default=AttestationKindChoices.ENROLL)
    passed = models.BooleanField()
    policy = models.CharField(max_length=100, blank=True, help_text=_("How the boot was judged"))
    findings = models.JSONField(default=list, blank=True)
    pcr_digest = models.CharField(max_length=128, blank=True, verbose_name=_("PCR digest"))
    pcrs = models.JSONField(default=dict, blank=True, verbose_name=_("PCRs"))
    facts = models.JSONField(default=dict, blank=True)
    secure_boot = models.BooleanField(null=True, blank=True)
    time = models.DateTimeField()

    class Meta:
        ordering = ("-time", "-pk")
        verbose_name = _("attestation")
        verbose_name_plural = _("attestations")
        indexes = [models.Index(fields=("machine", "-time"))]

    def __str__(self):
        return f"{self.get_kind_display()} {self.machine_name} {str(self.attestation_id)[:8]}"

    def get_kind_color(self):
        return AttestationKindChoices.colors.get(self.kind)
