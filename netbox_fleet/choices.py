"""The closed sets of words that the records use."""

from django.utils.translation import gettext_lazy as _
from utilities.choices import Choice, ChoiceSet


class PhaseChoices(ChoiceSet):
    """What an owner sees of a machine."""

    DECLARED = "declared"
    WAITING = "waiting"
    ATTESTING = "attesting"
    ATTESTED = "attested"
    ERASING = "erasing"
    INSTALLING = "installing"
    CONFIGURING = "configuring"
    ACTIVE = "active"
    WIPED = "wiped"
    RETIRING = "retiring"
    RETIRED = "retired"
    FAILED = "failed"
    QUARANTINED = "quarantined"

    CHOICES = [
        Choice(DECLARED, _("Declared"), color="gray"),
        Choice(WAITING, _("Waiting"), color="cyan"),
        Choice(ATTESTING, _("Attesting"), color="blue"),
        Choice(ATTESTED, _("Attested"), color="teal"),
        Choice(ERASING, _("Erasing"), color="orange"),
        Choice(INSTALLING, _("Installing"), color="blue"),
        Choice(CONFIGURING, _("Configuring"), color="blue"),
        Choice(ACTIVE, _("Active"), color="green"),
        Choice(WIPED, _("Wiped"), color="gray"),
        Choice(RETIRING, _("Retiring"), color="yellow"),
        Choice(RETIRED, _("Retired"), color="black"),
        Choice(FAILED, _("Failed"), color="red"),
        Choice(QUARANTINED, _("Quarantined"), color="red"),
    ]


DELETABLE_PHASES = frozenset({PhaseChoices.DECLARED, PhaseChoices.WIPED, PhaseChoices.RETIRED})


class CheckChoices(ChoiceSet):
    """What the last boot check of an installed machine said: its trust."""

    AWAITED = "awaited"
    OK = "ok"
    DRIFTED = "drifted"
    FAILED = "failed"
    LATE = "late"
    LOST = "lost"

    CHOICES = [
        Choice(AWAITED, _("Awaited"), color="cyan"),
        Choice(OK, _("OK"), color="green"),
        Choice(DRIFTED, _("Drifted"), color="orange"),
        Choice(FAILED, _("Failed"), color="red"),
        Choice(LATE, _("Late"), color="yellow"),
        Choice(LOST, _("Lost"), color="red"),
    ]


class IntentKindChoices(ChoiceSet):
    """What an owner can ask of a machine."""

    PROVISION = "provision"
    ATTEST = "attest"
    WIPE = "wipe"
    RETIRE = "retire"

    CHOICES = [
        Choice(PROVISION, _("Provision"), color="blue"),
        Choice(ATTEST, _("Attest"), color="teal"),
        Choice(WIPE, _("Wipe"), color="orange"),
        Choice(RETIRE, _("Retire"), color="yellow"),
    ]


ERASING_KINDS = frozenset({IntentKindChoices.PROVISION, IntentKindChoices.WIPE, IntentKindChoices.RETIRE})


class IntentStateChoices(ChoiceSet):
    """How far the current intent of a machine is."""

    REQUESTED = "requested"
    SET = "set"
    RUNNING = "running"

    CHOICES = [
        Choice(REQUESTED, _("Waits for approval"), color="yellow"),
        Choice(SET, _("Set"), color="cyan"),
        Choice(RUNNING, _("Running"), color="blue"),
    ]


class RunStateChoices(ChoiceSet):
    """State of a run; all but running are final."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"

    CHOICES = [
        Choice(RUNNING, _("Running"), color="blue"),
        Choice(SUCCEEDED, _("Succeeded"), color="green"),
        Choice(FAILED, _("Failed"), color="red"),
        Choice(CANCELLED, _("Cancelled"), color="gray"),
        Choice(WITHDRAWN, _("Withdrawn"), color="gray"),
    ]


FINAL_RUN_STATES = frozenset(
    {RunStateChoices.SUCCEEDED, RunStateChoices.FAILED, RunStateChoices.CANCELLED, RunStateChoices.WITHDRAWN}
)


class KeyStatusChoices(ChoiceSet):
    """What was decided about an endorsement key."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"

    CHOICES = [
        Choice(PENDING, _("Pending"), color="yellow"),
        Choice(APPROVED, _("Approved"), color="green"),
        Choice(REJECTED, _("Rejected"), color="red"),
        Choice(RETIRED, _("Retired"), color="gray"),
    ]


class ChainStatusChoices(ChoiceSet):
    """Who vouches for an endorsement key."""

    MANUFACTURER = "manufacturer"
    OWNER = "owner"
    NONE = "none"
    UNVERIFIED = "unverified"

    CHOICES = [
        Choice(MANUFACTURER, _("Manufacturer"), color="green"),
        Choice(OWNER, _("Owner's root"), color="green"),
        Choice(NONE, _("No certificate"), color="gray"),
        Choice(UNVERIFIED, _("Unverified"), color="orange"),
    ]


class AttestationKindChoices(ChoiceSet):
    """Where a verification was made."""

    ENROLL = "enroll"
    CHECK = "check"

    CHOICES = [
        Choice(ENROLL, _("Enrollment"), color="blue"),
        Choice(CHECK, _("Boot check"), color="teal"),
    ]


class CertificateKindChoices(ChoiceSet):
    """The two certificates of a device."""

    LDEVID = "ldevid"
    LAK = "lak"

    CHOICES = [
        Choice(LDEVID, _("LDevID"), color="blue"),
        Choice(LAK, _("LAK"), color="teal"),
    ]


class BaselineStateChoices(ChoiceSet):
    """What became of a set of boot measurements."""

    OFFERED = "offered"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    SUPERSEDED = "superseded"

    CHOICES = [
        Choice(OFFERED, _("Offered"), color="yellow"),
        Choice(ACCEPTED, _("Accepted"), color="green"),
        Choice(DECLINED, _("Declined"), color="red"),
        Choice(SUPERSEDED, _("Superseded"), color="gray"),
    ]


class BaselineDecisionChoices(ChoiceSet):
    """What a person said about an offered baseline."""

    ACCEPT = "accept"
    DECLINE = "decline"

    CHOICES = [
        Choice(ACCEPT, _("Accept"), color="green"),
        Choice(DECLINE, _("Decline"), color="red"),
    ]


class StatementKindChoices(ChoiceSet):
    """What only a person can say of a machine."""

    RELEASE = "release"
    LOST = "lost"
    POWER_OFF = "power-off"
    DISK = "disk"

    CHOICES = [
        Choice(RELEASE, _("Release from quarantine"), color="green"),
        Choice(LOST, _("Declared lost"), color="red"),
        Choice(POWER_OFF, _("Vouched: it is off"), color="orange"),
        Choice(DISK, _("Vouched: a disk may leave as it is"), color="orange"),
    ]


class StatementStateChoices(ChoiceSet):
    """What the service made of a statement."""

    GIVEN = "given"
    TAKEN = "taken"
    REFUSED = "refused"

    CHOICES = [
        Choice(GIVEN, _("Not heard yet"), color="cyan"),
        Choice(TAKEN, _("Taken"), color="green"),
        Choice(REFUSED, _("Refused"), color="red"),
    ]


class FamilyChoices(ChoiceSet):
    """How an operating system is delivered."""

    TALOS = "talos"
    NIXOS_IMAGE = "nixos-image"
    ALPINE_IMAGE = "alpine-image"
    CLOUD_INIT_NOCLOUD = "cloud-init-nocloud"

    CHOICES = [
        Choice(TALOS, _("Talos"), color="blue"),
        Choice(NIXOS_IMAGE, _("NixOS image"), color="teal"),
        Choice(ALPINE_IMAGE, _("Alpine image"), color="cyan"),
        Choice(CLOUD_INIT_NOCLOUD, _("cloud-init (NoCloud)"), color="orange"),
    ]
