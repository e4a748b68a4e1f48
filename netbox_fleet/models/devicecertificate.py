from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from netbox.models import NetBoxModel

from netbox_fleet.choices import CertificateKindChoices


class DeviceCertificate(NetBoxModel):
    """A certificate issued to a machine's key; never changed but for its revocation."""

    machine = models.ForeignKey(
        "netbox_fleet.Machine", on_delete=models.SET_NULL, related_name="certificates", null=True, blank=True
    )
    machine_name = models.CharField(max_length=63)
    kind = models.CharField(max_length=10, choices=CertificateKindChoices)
    serial = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64, unique=True, help_text=_("SHA-256 of the certificate"))
    not_before = models.DateTimeField()
    not_after = models.DateTimeField()
    issuer = models.CharField(max_length=300, blank=True)
    pem = models.TextField(blank=True, verbose_name=_("PEM"))
    revoked_at = models.DateTimeField(null=True, blank=True)
    revocation_reason = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ("-not_before", "-pk")
        verbose_name = _("device certificate")
        verbose_name_plural = _("device certificates")
        indexes = [models.Index(fields=("machine", "-not_before")), models.Index(fields=("not_after",))]

    def __str__(self):
        return f"{self.get_kind_display()} {self.machine_name} {self.serial[:12]}"

    def get_kind_color(self):
        return CertificateKindChoices.colors.get(self.kind)

    @property
    def valid(self) -> bool:
        """Whether it is neither revoked nor outside its dates."""
        return self.revoked_at is None and self.not_before <= timezone.now() <= self.not_after
