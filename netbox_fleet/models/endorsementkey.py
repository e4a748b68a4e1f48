from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from netbox_fleet.choices import ChainStatusChoices, KeyStatusChoices
from netbox_fleet.models.guarded import GuardedModel

DECISION_FIELDS = ("status", "decided_by", "decided_at", "decision_reason")

sha256_hex = RegexValidator(r"^[0-9a-f]{64}\Z", _("64 lower-case hexadecimal digits."))

IDENTITY = ("machine_id", "public_hash", "certificate_sha256")


def waiting_keys(keys: "QuerySet[EndorsementKey]") -> "QuerySet[EndorsementKey]":
    """Return those of the keys that wait for a person; no query yet.

    A TPM proves all of its keys at once, and one approved is enough: the others, seen before that word was given, stay
    pending and hold nothing up. A key that comes after it is of another TPM.
    """
    enough = EndorsementKey.objects.filter(
        machine=OuterRef("machine"), status=KeyStatusChoices.APPROVED, decided_at__gte=OuterRef("created")
    )
    return keys.filter(~Exists(enough), status=KeyStatusChoices.PENDING)


class EndorsementKey(GuardedModel):
    """The identity of a TPM, and a person's word on whether it belongs to a machine."""

    machine = models.ForeignKey(
        "netbox_fleet.Machine", on_delete=models.SET_NULL, related_name="endorsement_keys", null=True, blank=True
    )
    candidates = models.ManyToManyField(
        "netbox_fleet.Machine",
        related_name="candidate_keys",
        blank=True,
        help_text=_("Machines that this key may belong to, as the service saw it"),
    )
    public_hash = models.CharField(
        max_length=64,
        blank=True,
        validators=[sha256_hex],
        help_text=_("SHA-256 of the key's public area (TPMT_PUBLIC)"),
    )
    key_type = models.CharField(max_length=20, blank=True)
    certificate_sha256 = models.CharField(
        max_length=64, blank=True, validators=[sha256_hex], verbose_name=_("certificate fingerprint")
    )
    manufacturer = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=100, blank=True)
    version = models.CharField(max_length=100, blank=True)
    chain_status = models.CharField(max_length=20, choices=ChainStatusChoices, default=ChainStatusChoices.UNVERIFIED)
    status = models.CharField(max_length=20, choices=KeyStatusChoices, default=KeyStatusChoices.PENDING, editable=False)
    first_seen_address = models.CharField(max_length=100, blank=True)
    findings = models.JSONField(default=list, blank=True, editable=False)
    decided_by = models.CharField(max_length=150, blank=True, editable=False)
    decided_at = models.DateTimeField(null=True, blank=True, editable=False)
    decision_reason = models.CharField(max_length=500, blank=True, editable=False)

    guarded = DECISION_FIELDS

    class Meta:
        ordering = ("-created", "pk")
        verbose_name = _("endorsement key")
        verbose_name_plural = _("endorsement keys")
        constraints = [
            models.UniqueConstraint(
                fields=("public_hash",), condition=~Q(public_hash=""), name="netbox_fleet_endorsementkey_hash"
            ),
            models.CheckConstraint(
                condition=~Q(public_hash="", certificate_sha256=""),
                name="netbox_fleet_endorsementkey_named",
                violation_error_message=_("A key needs the hash of its public area or its certificate's fingerprint."),
            ),
        ]
        permissions = [("approve_endorsementkey", "Approve or reject endorsement keys")]

    def __str__(self):
        return (self.public_hash or self.certificate_sha256)[:16]

    def get_status_color(self):
        return KeyStatusChoices.colors.get(self.status)

    def get_chain_status_color(self):
        return ChainStatusChoices.colors.get(self.chain_status)

    def clean_fields(self, exclude=None):
        self.public_hash = (self.public_hash or "").strip().lower()
        self.certificate_sha256 = (self.certificate_sha256 or "").strip().lower().replace(":", "")
        super().clean_fields(exclude=exclude)

    def clean(self):
        super().clean()
        if self.pk:
            # The stored status counts: a person may have approved the key since this record was read.
            before = EndorsementKey.objects.filter(pk=self.pk).values("status", *IDENTITY).first() or {}
            approved = before.get("status") == KeyStatusChoices.APPROVED
            if approved and any(before[name] != getattr(self, name) for name in IDENTITY):
                raise ValidationError(_("An approved key keeps its machine and its identity: reject it instead."))
