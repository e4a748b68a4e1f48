"""What a machine waits for and what a person can do next, in words for an owner."""

from dataclasses import dataclass

from django.urls import reverse

from netbox_fleet.choices import CheckChoices, PhaseChoices
from netbox_fleet.models import Machine
from netbox_fleet.ui.alerts import WORD_WANTED, unapproved


@dataclass(frozen=True, slots=True)
class Outlook:
    """Two sentences; `url`, where it is not empty, leads to the next step."""

    waits_for: str
    next_step: str
    url: str = ""


def outlook(machine: Machine) -> Outlook:
    """Say what the machine waits for; a person's word comes before what goes on by itself."""
    if unapproved(machine):
        url = reverse("plugins:netbox_fleet:machine_approve", args=[machine.pk])
        return Outlook("Somebody's approval of what was asked.", "Approve it, or cancel it.", url)
    if (key := machine.pending_key) is not None:
        return Outlook(
            f"A decision on endorsement key {key}, which this machine has proven to hold.",
            "Compare it with what you know of the machine, then approve or reject it.",
            key.get_absolute_url(),
        )
    if (baseline := machine.offered_baseline) is not None:
        return Outlook(
            "A decision on its boot measurements, which have changed.",
            "Look at the difference, then accept or decline it.",
            baseline.get_absolute_url(),
        )
    if any(machine.has_finding(code) for code in WORD_WANTED):
        return Outlook(
            "A person's word on what fleetd cannot see.",
            "Look at the machine, then vouch for what the message names.",
            reverse("plugins:netbox_fleet:machine_vouch", args=[machine.pk]),
        )
    if machine.cancel_requested_by:
        return Outlook("The next safe step, where what was asked ends.", "Nothing: it ends by itself.")
    if machine.busy:
        return Outlook("The next step of what was asked.", "Nothing: it goes on by itself.")
    return _at_rest(machine)


def _at_rest(machine: Machine) -> Outlook:
    if machine.phase == PhaseChoices.QUARANTINED:
        return Outlook(
            "A person who finds out why it is not trusted.",
            "Read the findings; then wipe it, or release it and ask for an attest.",
            reverse("plugins:netbox_fleet:machine_release", args=[machine.pk]),
        )
    if machine.phase == PhaseChoices.FAILED:
        return Outlook("A person who mends the cause.", "Read the findings below, mend the cause, then ask again.")
    if machine.phase == PhaseChoices.ACTIVE:
        return _CHECKED.get(machine.check_result, _UNCHECKED)
    if machine.phase == PhaseChoices.RETIRED:
        return Outlook(
            "Nothing.",
            "Nothing: its keys and certificates are void, and its record may be deleted. To use the machine again, "
            "move its device out of decommissioning, then provision it.",
        )
    if not machine.disk_serial or machine.machine_class is None:
        url = reverse("plugins:netbox_fleet:machine_edit", args=[machine.pk])
        missing = "disk serial" if not machine.disk_serial else "class"
        return Outlook("A full declaration.", f"Enter its {missing}.", url)
    if machine.phase == PhaseChoices.WIPED:
        return Outlook("Nothing.", "Provision it again, or set the device to decommissioning to retire it.")
    return Outlook("Nothing.", "Provision it when it is racked and cabled.")


_UNCHECKED = Outlook("Nothing.", "Nothing: this class of machine is not checked.")
_CHECKED = {
    CheckChoices.AWAITED: Outlook("Its first boot check.", "Nothing: it comes by itself."),
    CheckChoices.OK: Outlook("Nothing.", "Nothing: it proves every hour that it is what it was."),
    CheckChoices.DRIFTED: Outlook("A person who knows the cause.", "Read the findings below."),
    CheckChoices.FAILED: Outlook("A person who mends the cause.", "Read the findings below; attest it afterwards."),
    CheckChoices.LATE: Outlook(
        "Its next boot check, which is late.", "See whether it is switched on and reaches fleetd."
    ),
    CheckChoices.LOST: Outlook(
        "A boot check; there was none for a long time.", "See whether it is still there; attest it with a reboot."
    ),
}
