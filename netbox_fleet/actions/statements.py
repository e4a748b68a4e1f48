"""What only a person can say of a machine: release it, call it lost, vouch for what the service cannot see.

A statement is written once and travels with the machine's declaration until the service has answered it; the service
judges it by what it knows itself, as it does with the same words of its own command line.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from netbox_fleet.actions.intents import locked, require
from netbox_fleet.actions.reasons import demanded
from netbox_fleet.actions.refusals import ConflictError, RefusalError
from netbox_fleet.choices import IntentKindChoices, IntentStateChoices, StatementKindChoices, StatementStateChoices
from netbox_fleet.models import Machine, Statement
from netbox_fleet.models.machine import folded

PERMISSIONS = {
    StatementKindChoices.RELEASE: "release_machine",
    StatementKindChoices.LOST: "declare_lost_machine",
    StatementKindChoices.POWER_OFF: "vouch_machine",
    StatementKindChoices.DISK: "vouch_machine",
}


@dataclass(frozen=True, slots=True)
class Words:
    """What a person says; `disk` is the serial (or name) of the disk that a word is given about."""

    kind: str
    reason: str
    disk: str = ""


def say(pk: int, words: Words, user: Any) -> Statement:
    """Write a person's statement about a machine.

    Raises NotPermittedError, NoReasonError, and ConflictError where it makes no sense now or was said already.
    """
    with transaction.atomic():
        machine = locked(pk)
        require(user, PERMISSIONS[words.kind], machine)
        reason = demanded(words.reason)
        _refuse_senseless(machine, words)
        subject = folded(words.disk) if words.kind == StatementKindChoices.DISK else ""
        intent = None if words.kind == StatementKindChoices.RELEASE else machine.intent_id
        same = machine.statements.filter(
            kind=words.kind, subject=subject, intent_id=intent, state=StatementStateChoices.GIVEN
        )
        if (before := same.first()) is not None:
            raise ConflictError(f"{before.by} said so already; the service has not answered yet.", "said-already")
        return Statement.objects.create(
            statement_id=uuid.uuid4(),
            machine=machine,
            machine_name=machine.node_name,
            kind=words.kind,
            subject=subject,
            intent_id=intent,
            by=user.get_username()[:150],
            reason=reason,
            time=timezone.now(),
        )


def vouched(*, power_off: bool, disk: str, reason: str) -> Words:
    """Return the words of one who vouches. Raises RefusalError unless exactly one thing is vouched for."""
    if bool(disk.strip()) == power_off:
        raise RefusalError("Say one of: the machine is off, or the serial of one disk.", "one-thing")
    kind = StatementKindChoices.POWER_OFF if power_off else StatementKindChoices.DISK
    return Words(kind, reason, disk)


def _refuse_senseless(machine: Machine, words: Words) -> None:
    """Refuse what the service would refuse by all that it has reported; its own word still counts."""
    approved = machine.intent_state in {IntentStateChoices.SET, IntentStateChoices.RUNNING}
    going = machine.desired_action if approved else ""
    if words.kind == StatementKindChoices.RELEASE:
        if not machine.quarantined:
            raise ConflictError("The machine is not quarantined.", "not-quarantined")
    elif words.kind == StatementKindChoices.LOST:
        if going not in {IntentKindChoices.WIPE, IntentKindChoices.RETIRE}:
            raise ConflictError(
                "No approved wipe or retirement of this machine is under way: ask for one first.", "no-run"
            )
    elif going != IntentKindChoices.RETIRE:
        raise ConflictError("No approved retirement of this machine is under way: ask for one first.", "no-run")
