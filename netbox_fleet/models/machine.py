"""The plugin's record beside a Device: what is declared of it, what is asked of it, and what is observed."""

import re

from dcim.choices import DeviceStatusChoices
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from netbox.plugins import get_plugin_config
from utilities.exceptions import AbortRequest

from netbox_fleet.choices import (
    DELETABLE_PHASES,
    ERASING_KINDS,
    BaselineStateChoices,
    CheckChoices,
    IntentKindChoices,
    IntentStateChoices,
    PhaseChoices,
)
from netbox_fleet.models.endorsementkey import waiting_keys
from netbox_fleet.models.guarded import GuardedModel

INTENT_FIELDS = (
    "desired_action",
    "intent_id",
    "intent_state",
    "intent_requested_by",
    "intent_requested_at",
    "intent_reason",
    "confirmed_serial",
    "approved_by",
    "approved_at",
    "cancel_requested_by",
    "cancel_requested_at",
    "cancel_reason",
    "force_budget",
    "reboot",
    "intent_two_person",
    "retire_requested_by",
)
OBSERVED_FIELDS = (
    "report_seq",
    "phase",
    "phase_since",
    "phase_deadline",
    "percent",
    "message",
    "findings",
    "last_seen",
    "last_check",
    "check_result",
    "check_days",
    "drift",
    "installed_digest",
)

# What a person confirms or approves with an erase: which disks, of which machine, and what is installed on them.
CONFIRMED_FIELDS = ("device_id", "node_name", "machine_class_id", "disk_serial", "disk_wwn", "extra_disks")

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

dns_label = RegexValidator(
    rf"^{DNS_LABEL.pattern}\Z", _("A DNS label: lower-case letters, digits and hyphens, at most 63.")
)
object_name = RegexValidator(
    r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z", _("A Kubernetes name: lower-case letters, digits, hyphens and dots.")
)
bmc_host = RegexValidator(r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,253}[A-Za-z0-9])?\Z", _("A host name or an IP address."))
disk_word = RegexValidator(r"^\S([ -~]*\S)?\Z", _("Printable ASCII characters without spaces at the ends."))


def folded(serial: str) -> str:
    """Return a disk serial as it is compared: trimmed and case-folded."""
    return serial.strip().casefold()


class Machine(GuardedModel):
    """One machine of the fleet; `desired_action` and the intent are written by the actions alone."""

    device = models.OneToOneField("dcim.Device", on_delete=models.PROTECT, related_name="fleet_machine")
    node_name = models.CharField(
        max_length=63,
        unique=True,
        blank=True,
        validators=[dns_label],
        help_text=_("Host name, certificate name and command-line name; unique in the fleet. Empty: the device's name"),
    )
    machine_class = models.ForeignKey(
        "netbox_fleet.MachineClass", on_delete=models.PROTECT, related_name="machines", null=True, blank=True
    )
    disk_serial = models.CharField(
        max_length=100,
        blank=True,
        validators=[disk_word],
        help_text=_("Serial of the one disk that may be erased and written"),
    )
    disk_wwn = models.CharField(
        max_length=100,
        blank=True,
        validators=[disk_word],
        verbose_name=_("disk WWN"),
        help_text=_("World Wide Name, needed where the maker repeats serials"),
    )
    extra_disks = ArrayField(
        models.CharField(max_length=200, validators=[disk_word]),
        default=list,
        blank=True,
        help_text=_(
            "Serials of further disks that wipe and retire erase too; SERIAL or SERIAL@WWN, with commas between"
        ),
    )
    bmc_address = models.CharField(max_length=255, blank=True, validators=[bmc_host], verbose_name=_("BMC address"))
    bmc_secret = models.CharField(
        max_length=253,
        blank=True,
        validators=[object_name],
        verbose_name=_("BMC secret"),
        help_text=_("Name of the Secret in the cluster that holds the BMC's credentials; never the credentials"),
    )

    firmware = models.CharField(
        max_length=100,
        blank=True,
        help_text=_("Firmware version that the machine should report; empty: any"),
    )

    # The intent
    desired_action = models.CharField(max_length=20, choices=IntentKindChoices, blank=True, editable=False)
    intent_id = models.UUIDField(null=True, blank=True, unique=True, editable=False)
    intent_state = models.CharField(max_length=20, choices=IntentStateChoices, blank=True, editable=False)
    intent_requested_by = models.CharField(max_length=150, blank=True, editable=False)
    intent_requested_at = models.DateTimeField(null=True, blank=True, editable=False)
    intent_reason = models.CharField(max_length=500, blank=True, editable=False)
    confirmed_serial = models.CharField(max_length=100, blank=True, editable=False)
    approved_by = models.CharField(max_length=150, blank=True, editable=False)
    approved_at = models.DateTimeField(null=True, blank=True, editable=False)
    cancel_requested_by = models.CharField(max_length=150, blank=True, editable=False)
    cancel_requested_at = models.DateTimeField(null=True, blank=True, editable=False)
    cancel_reason = models.CharField(max_length=500, blank=True, editable=False)
    force_budget = models.BooleanField(default=False, editable=False)
    reboot = models.BooleanField(default=False, editable=False)
    intent_two_person = models.BooleanField(
        default=False,
        editable=False,
        help_text=_(
            "Whether a second person had to approve when this was asked; lifting the rule later changes nothing"
        ),
    )
    retire_requested_by = models.CharField(
        max_length=150,
        blank=True,
        editable=False,
        help_text=_("Who set the device to decommissioning while another intent was under way"),
    )

    # What the service observes
    report_seq = models.BigIntegerField(default=0, editable=False)
    phase = models.CharField(max_length=20, choices=PhaseChoices, default=PhaseChoices.DECLARED, editable=False)
    phase_since = models.DateTimeField(null=True, blank=True, editable=False)
    phase_deadline = models.DateTimeField(null=True, blank=True, editable=False)
    percent = models.PositiveSmallIntegerField(
        null=True, blank=True, editable=False, validators=[MaxValueValidator(100)]
    )
    message = models.CharField(max_length=500, blank=True, editable=False)
    findings = models.JSONField(default=list, blank=True, editable=False)
    last_seen = models.DateTimeField(null=True, blank=True, editable=False)
    last_check = models.DateTimeField(null=True, blank=True, editable=False)
    check_result = models.CharField(
        max_length=20, choices=CheckChoices, blank=True, editable=False, verbose_name=_("trust")
    )
    check_days = models.JSONField(
        default=dict, blank=True, editable=False, help_text=_("Date to 24-bit map of the hours with a good check")
    )

    drift = models.JSONField(
        default=list,
        blank=True,
        editable=False,
        help_text=_("Where the machine's own report differs from what is declared: field, declared, reported"),
    )
    installed_digest = models.CharField(
        max_length=128,
        blank=True,
        editable=False,
        help_text=_("Digest of the class that the machine was installed from"),
    )

    guarded = (*INTENT_FIELDS, *OBSERVED_FIELDS)
    clone_fields = ("machine_class",)
    prerequisite_models = ("dcim.Device",)

    class Meta:
        ordering = ("node_name",)
        verbose_name = _("machine")
        verbose_name_plural = _("machines")
        constraints = [
            models.UniqueConstraint(
                fields=("disk_serial", "disk_wwn"),
                condition=~Q(disk_serial=""),
                name="netbox_fleet_machine_disk",
                violation_error_message=_("Another machine declares this disk."),
            ),
            models.CheckConstraint(
                condition=Q(desired_action="", intent_id__isnull=True, intent_state="")
                | (~Q(desired_action="") & Q(intent_id__isnull=False) & ~Q(intent_state="")),
                name="netbox_fleet_machine_intent",
            ),
        ]
        indexes = [models.Index(fields=("phase",)), models.Index(fields=("check_result",))]
        permissions = [
            ("provision_machine", "Install an operating system (erases the declared disk)"),
            ("attest_machine", "Ask for a fresh attestation"),
            ("wipe_machine", "Erase the declared disks; also start a retirement by the device's status"),
            ("cancel_machine", "Cancel what is asked of a machine"),
            ("approve_machine", "Approve another person's request"),
            ("force_machine", "Go past the availability budget"),
            ("release_machine", "Release a machine from quarantine"),
            ("declare_lost_machine", "Let a wipe or retirement end without erasing: the machine is lost"),
            ("vouch_machine", "Give one's word in a retirement: the machine is off, a disk may leave as it is"),
            ("report_machine", "Write reports (the service's account)"),
        ]

    def __str__(self):
        return self.node_name

    def get_phase_color(self):
        return PhaseChoices.colors.get(self.phase)

    def get_check_result_color(self):
        return CheckChoices.colors.get(self.check_result)

    def get_desired_action_color(self):
        return IntentKindChoices.colors.get(self.desired_action)

    def get_intent_state_color(self):
        return IntentStateChoices.colors.get(self.intent_state)

    @property
    def busy(self) -> bool:
        """Whether an intent is set, waits or runs."""
        return bool(self.desired_action)

    @property
    def current_run(self):
        """The run of the present intent, or None; one query, made once."""
        if "_current_run" not in self.__dict__:
            self._current_run = self.runs.filter(run_id=self.intent_id).first() if self.intent_id else None
        return self._current_run

    @property
    def pending_key(self):
        """The oldest of its endorsement keys that wait for a person, or None; one query, made once."""
        if "_pending_key" not in self.__dict__:
            self._pending_key = waiting_keys(self.endorsement_keys).order_by("pk").first()
        return self._pending_key

    @property
    def offered_baseline(self):
        """The newest of its baselines that waits for a decision, or None; one query, made once."""
        if "_offered_baseline" not in self.__dict__:
            waiting = self.baselines.filter(state=BaselineStateChoices.OFFERED, decision="")
            self._offered_baseline = waiting.first()
        return self._offered_baseline

    @property
    def two_person(self) -> bool:
        """Whether what erases this machine needs a second person."""
        if self.machine_class is not None and self.machine_class.two_person:
            return True
        tag = get_plugin_config("netbox_fleet", "two_person_tag")
        return bool(tag) and (self.tags.filter(slug=tag).exists() or self.device.tags.filter(slug=tag).exists())

    @property
    def quarantined(self) -> bool:
        """Whether the service holds the machine for not trustworthy, also while a run is under way."""
        return self.phase == PhaseChoices.QUARANTINED or self.has_finding("quarantined")

    def has_finding(self, code: str) -> bool:
        """Whether the service last reported a finding of this code."""
        return any(isinstance(finding, dict) and finding.get("code") == code for finding in self.findings)

    @property
    def outdated(self) -> bool:
        """Whether the machine was installed from another version of its class than the one in force."""
        return bool(self.installed_digest and self.machine_class and self.installed_digest != self.machine_class.digest)

    @property
    def installed_version(self) -> str:
        """Which version of its class the machine was installed from, in words; empty where none was."""
        if not self.installed_digest:
            return ""
        return str(_("an older version of its class") if self.outdated else _("the version of its class in force"))

    @property
    def decommissioning(self) -> bool:
        """Whether its Device is being decommissioned."""
        return bool(self.device.status == DeviceStatusChoices.STATUS_DECOMMISSIONING)

    @property
    def gone(self) -> bool:
        """Whether it is retired for good: nothing can be asked of it until its Device leaves decommissioning."""
        return self.phase == PhaseChoices.RETIRED and self.decommissioning

    @property
    def deletable(self) -> bool:
        """Whether the record may go: nothing of it is outside NetBox any more."""
        return self.phase in DELETABLE_PHASES and not self.busy

    def clean_fields(self, exclude=None):
        self._fill()
        super().clean_fields(exclude=exclude)

    def clean(self):
        super().clean()
        if self.pk:
            stored = Machine.objects.filter(pk=self.pk).first()
            if changed := self._changed_since_confirmed(stored):
                raise ValidationError(
                    {name.removesuffix("_id"): self._keep_sentence(stored) for name in changed},
                )
        if not self.node_name:
            raise ValidationError({"node_name": _("The device has no name that can serve as a node name: enter one.")})
        self._clean_disks()
        if bool(self.bmc_address) != bool(self.bmc_secret):
            missing = "bmc_secret" if self.bmc_address else "bmc_address"
            raise ValidationError({missing: _("A BMC needs both an address and the name of a secret.")})

    def _clean_disks(self):
        if self.disk_wwn and not self.disk_serial:
            raise ValidationError({"disk_serial": _("A WWN without a serial says too little.")})
        if self.disk_serial:
            twins = Machine.objects.filter(disk_serial=self.disk_serial).exclude(pk=self.pk)
            if twins.exists() and (not self.disk_wwn or twins.filter(disk_wwn="").exists()):
                raise ValidationError(
                    {"disk_serial": _("Another machine declares this serial: both need the disk's WWN.")}
                )
        if self.disk_serial in {disk.partition("@")[0] for disk in self.extra_disks}:
            raise ValidationError({"extra_disks": _("The declared disk is not an extra disk.")})

    def _fill(self):
        """Normalise what people type, and take the device's name where no node name is given."""
        if not self.node_name and self.device_id and self.device.name:
            candidate = self.device.name.strip().lower()
            if DNS_LABEL.fullmatch(candidate):
                self.node_name = candidate
        self.disk_serial = folded(self.disk_serial or "")
        self.disk_wwn = folded(self.disk_wwn or "")
        self.extra_disks = [folded(disk) for disk in self.extra_disks or []]

    def _changed_since_confirmed(self, stored, names=None):
        """Return the fields in which this record differs from what a person confirmed an erase of."""
        if stored is None or stored.desired_action not in ERASING_KINDS or not stored.confirmed_serial:
            return []
        written = CONFIRMED_FIELDS if names is None else [n for n in CONFIRMED_FIELDS if n.removesuffix("_id") in names]
        return [name for name in written if getattr(self, name) != getattr(stored, name)]

    @staticmethod
    def _keep_sentence(stored):
        return (
            f"{stored.get_desired_action_display()} of {stored} was confirmed as it stands: cancel it before a change."
        )

    def save(self, *args, **kwargs):
        """Save; refuse to change what an erase was confirmed for, also where it was asked since the record was read."""
        self._fill()
        with transaction.atomic():
            if not self._state.adding:
                stored = Machine.objects.select_for_update(of=("self",)).filter(pk=self.pk).first()
                if changed := self._changed_since_confirmed(stored, kwargs.get("update_fields")):
                    raise AbortRequest(f"{', '.join(changed)}: {self._keep_sentence(stored)}")
            super().save(*args, **kwargs)

    def save_intent(self):
        """Write the intent's fields alone; for the actions and reports, under the row's lock."""
        self.save_guarded(*INTENT_FIELDS)
