"""The shape of `reports/` (docs/reference/plugin-api.md), as serializers that also describe it in OpenAPI."""

import re
from datetime import UTC, date, timedelta
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from netbox_fleet import choices
from netbox_fleet.reports.bounded import MOST_STEPS, CleanCharField, CleanJSONField, DriftField, FindingsField

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HEX64 = r"^([0-9a-f]{64})?\Z"
MOST_DAYS = 62
MOST_AHEAD = timedelta(days=1)
"""How far a report may be ahead of NetBox's clock: clocks differ, but a number far off would silence the machine."""
ALL_HOURS = 0xFFFFFF


def _moment(**kwargs: Any) -> serializers.DateTimeField:
    return serializers.DateTimeField(allow_null=True, required=False, **kwargs)


def _percent() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=100, allow_null=True, required=False)


class CheckDaysField(CleanJSONField):
    """Date to a 24-bit map of the hours with a good check."""

    def __init__(self, **kwargs: Any) -> None:
        hours = {"type": "integer", "minimum": 0, "maximum": ALL_HOURS}
        said = {"type": "object", "additionalProperties": hours, "maxProperties": MOST_DAYS}
        super().__init__(dict, said=said, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        days = super().to_internal_value(data)
        if len(days) > MOST_DAYS:
            raise serializers.ValidationError(f"At most {MOST_DAYS} days.")
        for day, hours in days.items():
            if type(hours) is not int or not 0 <= hours <= ALL_HOURS:
                raise serializers.ValidationError("Dates to numbers of at most 24 bits.")
            if _date(day) > last_day():
                raise serializers.ValidationError(f"{day} lies in the future: is the clock of the service right?")
        return days


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise serializers.ValidationError(f"{text[:40]!r} is no date.") from None


def last_day() -> date:
    """Return the last day (UTC) of which a check may be told: clocks differ, so tomorrow is one."""
    return (timezone.now().astimezone(UTC) + MOST_AHEAD).date()


class IntentReport(serializers.Serializer):
    """What became of an intent."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=["running", "succeeded", "failed", "cancelled", "withdrawn"])


class StepReport(serializers.Serializer):
    """One step of a run."""

    name = CleanCharField(max_length=100)
    state = serializers.ChoiceField(choices=["waiting", "running", "done", "failed"])
    started = _moment()
    ended = _moment()
    percent = _percent()
    message = CleanCharField(max_length=500)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        step = super().to_internal_value(data)
        for name in ("started", "ended"):
            if step.get(name) is not None:
                step[name] = step[name].isoformat()
        return dict(step)


class RunReport(serializers.Serializer):
    """A run as the service has it."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=choices.IntentKindChoices.values())
    requester = CleanCharField(max_length=150)
    state = serializers.CharField(max_length=50)
    percent = _percent()
    steps = StepReport(many=True, required=False)
    result = CleanCharField(max_length=500)
    error = CleanCharField(max_length=2000)
    evidence = CleanJSONField(dict)
    started = _moment()
    ended = _moment()

    def validate_state(self, value: str) -> str:
        """Keep final states; every other word of the service means that it goes on."""
        return value if value in choices.FINAL_RUN_STATES else choices.RunStateChoices.RUNNING

    def validate_steps(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return value[:MOST_STEPS]


class AttestationReport(serializers.Serializer):
    """The verdict of one TPM exchange."""

    id = serializers.UUIDField()
    run = serializers.UUIDField(allow_null=True, required=False)
    kind = serializers.ChoiceField(choices=choices.AttestationKindChoices.values(), required=False)
    passed = serializers.BooleanField()
    policy = CleanCharField(max_length=100)
    findings = FindingsField()
    pcr_digest = CleanCharField(max_length=128)
    pcrs = CleanJSONField(dict)
    facts = CleanJSONField(dict)
    secure_boot = serializers.BooleanField(allow_null=True, required=False)
    time = serializers.DateTimeField()


class CertificateReport(serializers.Serializer):
    """A certificate issued, or its revocation."""

    kind = serializers.ChoiceField(choices=choices.CertificateKindChoices.values())
    serial = CleanCharField(max_length=64)
    fingerprint = serializers.RegexField(r"^[0-9a-f]{64}\Z")
    not_before = serializers.DateTimeField()
    not_after = serializers.DateTimeField()
    issuer = CleanCharField(max_length=300)
    pem = CleanCharField(max_length=16_384)
    revoked_at = _moment()
    revocation_reason = CleanCharField(max_length=100)


class KeyReport(serializers.Serializer):
    """An endorsement key that a machine proved to hold."""

    public_hash = serializers.RegexField(r"^[0-9a-f]{64}\Z")
    key_type = CleanCharField(max_length=20)
    certificate_sha256 = serializers.RegexField(_HEX64, required=False, allow_blank=True)
    manufacturer = CleanCharField(max_length=100)
    model = CleanCharField(max_length=100)
    version = CleanCharField(max_length=100)
    chain_status = serializers.ChoiceField(choices=choices.ChainStatusChoices.values(), required=False)
    first_seen_address = CleanCharField(max_length=100)
    findings = FindingsField()


class UnknownKeyReport(KeyReport):
    """A key that belongs to no known machine, with the machines it may belong to."""

    candidates = serializers.ListField(child=serializers.IntegerField(min_value=1), required=False, max_length=100)


class BootCheckReport(serializers.Serializer):
    """A boot check whose result differs from the one before."""

    time = serializers.DateTimeField()
    result = serializers.ChoiceField(choices=["ok", "drifted", "failed", "late", "lost"])
    findings = FindingsField()
    difference = CleanJSONField(list, 200)


class BaselineReport(serializers.Serializer):
    """Boot measurements that the service offers or holds as accepted."""

    digest = CleanCharField(max_length=128)
    state = serializers.ChoiceField(choices=["offered", "accepted"])
    pcrs = CleanJSONField(dict)
    difference = CleanJSONField(list, 200)
    time = serializers.DateTimeField()

    def validate_digest(self, value: str) -> str:
        if not value:
            raise serializers.ValidationError("A baseline is named by its digest.")
        return value


class StatementReport(serializers.Serializer):
    """What became of a person's statement."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=["taken", "refused"])
    message = CleanCharField(max_length=500)


class MachineReport(serializers.Serializer):
    """All that is new about one machine; a key left out leaves its field as it is."""

    machine_id = serializers.IntegerField(min_value=1)
    seq = serializers.IntegerField(min_value=1, max_value=2**62)
    phase = serializers.ChoiceField(choices=choices.PhaseChoices.values(), required=False)
    since = _moment()
    deadline = _moment()
    percent = _percent()
    message = CleanCharField(max_length=500)
    findings = FindingsField()
    last_seen = _moment()
    last_check = _moment()
    check_result = serializers.ChoiceField(
        choices=choices.CheckChoices.values(), required=False, allow_blank=True, allow_null=True
    )
    check_days = CheckDaysField()
    drift = DriftField()
    installed_digest = CleanCharField(max_length=128)
    intent = IntentReport(required=False, allow_null=True)
    run = RunReport(required=False, allow_null=True)
    attestation = AttestationReport(required=False, allow_null=True)
    certificates = CertificateReport(many=True, required=False)
    eks = KeyReport(many=True, required=False)
    boot_check = BootCheckReport(required=False, allow_null=True)
    baseline = BaselineReport(required=False, allow_null=True)
    statements = StatementReport(many=True, required=False)

    def validate_seq(self, value: int) -> int:
        """Refuse a number that the machine's next reports could not exceed: it is the service's clock in milliseconds."""
        if value > (timezone.now() + MOST_AHEAD).timestamp() * 1000:
            raise serializers.ValidationError(
                "More than a day ahead of NetBox's clock, so that later reports would count as old: is the clock of"
                " the service right?"
            )
        return value


class ClassReport(serializers.Serializer):
    """One class that the service has loaded."""

    slug = serializers.SlugField(max_length=100)
    family = CleanCharField(max_length=50)
    installable = serializers.BooleanField(required=False)
    reason = CleanCharField(max_length=500)
    two_person = serializers.BooleanField(required=False)
    role = CleanCharField(max_length=100)
    digest = CleanCharField(max_length=128)
    warning = CleanCharField(max_length=500)


class ServiceReport(serializers.Serializer):
    """The service that reports."""

    version = CleanCharField(max_length=50)


class ReportsBody(serializers.Serializer):
    """The body of `reports/`."""

    reports = MachineReport(many=True, required=False)
    endorsement_keys = UnknownKeyReport(many=True, required=False)
    classes = ClassReport(many=True, required=False)
    service = ServiceReport(required=False)


class RejectedRow(serializers.Serializer):
    """A row that was refused."""

    index = serializers.IntegerField()
    errors = serializers.JSONField()


class ReportsAnswer(serializers.Serializer):
    """What became of the rows."""

    accepted = serializers.IntegerField()
    stale = serializers.ListField(child=serializers.IntegerField())
    rejected = RejectedRow(many=True)
    unknown_classes = serializers.ListField(child=serializers.CharField())
