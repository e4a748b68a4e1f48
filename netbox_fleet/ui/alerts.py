"""What an owner must be told at the top of a machine's or device's page."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from netbox_fleet.choices import IntentKindChoices, IntentStateChoices, PhaseChoices
from netbox_fleet.models import Machine

WORD_WANTED = ("power-off-word", "disk-word")
"""Findings of a retirement that waits until a person vouches for something."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One banner."""

    color: str
    icon: str
    title: str
    text: str
    url: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """One action that this person may take on this machine."""

    label: str
    url: str
    color: str
    icon: str


def alerts_of(machine: Machine) -> list[Alert]:
    """Return the banners of a machine; two queries."""
    found = []
    if unapproved(machine):
        text = f"{machine.get_desired_action_display()} was asked by {machine.intent_requested_by or 'nobody known'}."
        url = reverse("plugins:netbox_fleet:machine_approve", args=[machine.pk])
        found.append(Alert("warning", "mdi-account-clock", "Waits for approval.", text, url, "Approve"))
    if (pending := machine.pending_key) is not None:
        url = pending.get_absolute_url()
        text = "It is not approved yet: nothing is issued or erased until it is."
        found.append(Alert("warning", "mdi-key-alert", "A new endorsement key was proven.", text, url, "Decide"))
    if (offered := machine.offered_baseline) is not None:
        text = "The machine booted otherwise than before: somebody must say whether that was on purpose."
        found.append(Alert("warning", "mdi-file-compare", "Boot changed.", text, offered.get_absolute_url(), "Decide"))
    if machine.phase == PhaseChoices.FAILED:
        found.append(Alert("danger", "mdi-alert-octagon", "Failed.", machine.message))
    if machine.phase == PhaseChoices.QUARANTINED:
        url = reverse("plugins:netbox_fleet:machine_release", args=[machine.pk])
        found.append(Alert("danger", "mdi-biohazard", "Quarantined.", machine.message, url, "Release"))
    if any(machine.has_finding(code) for code in WORD_WANTED):
        url = reverse("plugins:netbox_fleet:machine_vouch", args=[machine.pk])
        found.append(Alert("warning", "mdi-account-voice", "Waits for your word.", machine.message, url, "Vouch"))
    if machine.drift:
        fields = ", ".join(str(row.get("field", "")) for row in machine.drift[:5] if isinstance(row, dict))
        text = f"What the machine reports is not what is declared: {fields}."
        url = reverse("plugins:netbox_fleet:machine", args=[machine.pk])
        found.append(Alert("warning", "mdi-not-equal-variant", "Hardware differs.", text, url, "Compare"))
    if machine.decommissioning and not machine.disk_serial and machine.phase != PhaseChoices.RETIRED:
        text = "No disk serial is declared, so nothing is erased and nothing will happen until one is entered."
        found.append(Alert("warning", "mdi-alert", "Decommissioning cannot begin.", text))
    return found


def unapproved(machine: Machine) -> bool:
    """Whether a request waits for a person, here or by what the service says of rules that came after it."""
    late = machine.intent_state == IntentStateChoices.SET and machine.has_finding("intent-waits-for-approval")
    return machine.intent_state == IntentStateChoices.REQUESTED or late


def buttons_of(machine: Machine, user: Any) -> list[Button]:
    """Return what this person may do to this machine now, by their permissions on this very object."""
    cancel = f"Cancel {machine.get_desired_action_display()}"
    offered: tuple[tuple[str, str, str, str], ...]
    if unapproved(machine):
        offered = (("approve", "Approve", "green", "mdi-check"), ("cancel", cancel, "orange", "mdi-cancel"))
    elif machine.busy:
        offered = (("cancel", cancel, "orange", "mdi-cancel"), *_words_offered(machine))
    elif machine.gone:
        offered = ()
    else:
        offered = (
            ("provision", "Provision", "blue", "mdi-download"),
            ("attest", "Attest", "teal", "mdi-shield-search"),
            ("wipe", "Wipe", "red", "mdi-eraser"),
        )
    if machine.quarantined:
        offered = (*offered, ("release", "Release", "green", "mdi-lock-open-check"))
    return [
        Button(label, reverse(f"plugins:netbox_fleet:machine_{action}", args=[machine.pk]), color, icon)
        for action, label, color, icon in offered
        if user.has_perm(f"netbox_fleet.{action}_machine", obj=machine)
    ]


def _words_offered(machine: Machine) -> tuple[tuple[str, str, str, str], ...]:
    """Return what only a person can say in a wipe or retirement that has begun."""
    lost = ("declare_lost", "Declare lost", "red", "mdi-map-marker-question")
    vouch = ("vouch", "Vouch", "orange", "mdi-account-voice")
    if machine.desired_action == IntentKindChoices.RETIRE:
        return (vouch, lost)
    return (lost,) if machine.desired_action == IntentKindChoices.WIPE else ()
