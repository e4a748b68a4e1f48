"""Ask something of a machine, approve what another person asked, cancel it, and clear what is over.

An intent is a handful of fields of its Machine, written here alone and always under the row's lock. Its UUID becomes
the run's id and is consumed once: a final Run with that UUID means that the intent is spent, whatever the row says.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.utils import timezone

from netbox_fleet.actions.reasons import kept
from netbox_fleet.actions.refusals import ConflictError, NotPermittedError, WrongSerialError
from netbox_fleet.choices import (
    ERASING_KINDS,
    FINAL_RUN_STATES,
    IntentKindChoices,
    IntentStateChoices,
    RunStateChoices,
    StatementStateChoices,
)
from netbox_fleet.models import Machine, Run
from netbox_fleet.models.machine import folded

_EMPTY: dict[str, Any] = {
    "desired_action": "",
    "intent_id": None,
    "intent_state": "",
    "intent_requested_by": "",
    "intent_requested_at": None,
    "intent_reason": "",
    "confirmed_serial": "",
    "approved_by": "",
    "approved_at": None,
    "cancel_requested_by": "",
    "cancel_requested_at": None,
    "cancel_reason": "",
    "force_budget": False,
    "reboot": False,
    "intent_two_person": False,
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks of a machine."""

    kind: str
    confirm_serial: str = ""
    reason: str = ""
    force_budget: bool = False
    reboot: bool = False


def locked(pk: int) -> Machine:
    """Return the machine under its row lock, with a snapshot for the change log; call inside a transaction."""
    machine = Machine.objects.select_for_update(of=("self",)).select_related("device", "machine_class").get(pk=pk)
    machine.snapshot()
    return machine


def spent(intent_id: uuid.UUID) -> bool:
    """Whether a final run with this UUID exists, so that the intent can never start again."""
    return Run.objects.filter(run_id=intent_id, state__in=FINAL_RUN_STATES).exists()


def needs_second_person(machine: Machine, kind: str) -> bool:
    """Whether this request waits for another person's approval."""
    return kind in ERASING_KINDS and machine.two_person


def ask(pk: int, request: Request, user: Any) -> Machine:
    """Set an intent on a machine.

    Raises NotPermittedError, WrongSerialError, or ConflictError where another intent is set or the declaration is not
    complete.
    """
    with transaction.atomic():
        machine = locked(pk)
        require(user, f"{request.kind}_machine", machine)
        if request.force_budget:
            require(user, "force_machine", machine)
        _refuse_busy(machine)
        _refuse_gone(machine)
        _refuse_incomplete(machine, request.kind)
        _refuse_wrong_serial(machine, request)
        waits = needs_second_person(machine, request.kind)
        place(machine, request, user.get_username(), approved=not waits)
        machine.save_intent()
    return machine


def place(machine: Machine, request: Request, username: str, *, approved: bool) -> None:
    """Write a new intent into the row without saving it."""
    for name, value in _EMPTY.items():
        setattr(machine, name, value)
    machine.desired_action = request.kind
    machine.intent_id = uuid.uuid4()
    machine.intent_state = IntentStateChoices.SET if approved else IntentStateChoices.REQUESTED
    machine.intent_requested_by = username[:150]
    machine.intent_requested_at = timezone.now()
    machine.intent_reason = kept(request.reason)
    machine.confirmed_serial = machine.disk_serial if request.kind in ERASING_KINDS else ""
    machine.force_budget = request.force_budget
    machine.reboot = request.reboot
    machine.intent_two_person = needs_second_person(machine, request.kind)


def approve(pk: int, user: Any) -> Machine:
    """Approve a request that waits; on a two-person machine the approver must not be the requester.

    The stricter counts of what was demanded when it was asked and what is demanded now: a tag or class that one person
    changed in between lifts nothing. Raises NotPermittedError and ConflictError.
    """
    with transaction.atomic():
        machine = locked(pk)
        require(user, "approve_machine", machine)
        if not _waits(machine):
            raise ConflictError("Nothing waits for approval on this machine.", "nothing-to-approve")
        machine.intent_two_person = machine.intent_two_person or needs_second_person(machine, machine.desired_action)
        if machine.intent_requested_by == user.get_username() and machine.intent_two_person:
            raise NotPermittedError("A second person must approve: you asked for this yourself.", "same-person")
        if machine.desired_action in ERASING_KINDS:
            _refuse_incomplete(machine, machine.desired_action)
            if machine.confirmed_serial and machine.confirmed_serial != machine.disk_serial:
                raise ConflictError(
                    "The disk serial was changed since this was asked: cancel it and ask again.", "declaration-changed"
                )
            machine.confirmed_serial = machine.disk_serial
        machine.intent_state = IntentStateChoices.SET
        machine.approved_by = user.get_username()[:150]
        machine.approved_at = timezone.now()
        machine.save_intent()
    return machine


def _waits(machine: Machine) -> bool:
    """Whether the request waits for a person; also one that needed none when it was asked, and has not begun."""
    if machine.intent_state == IntentStateChoices.SET and not machine.approved_by:
        return needs_second_person(machine, machine.desired_action)
    return machine.intent_state == IntentStateChoices.REQUESTED


def cancel(pk: int, reason: str, user: Any) -> Machine:
    """Ask for the end of the current intent; one that still waits for approval ends at once.

    Raises NotPermittedError and ConflictError.
    """
    with transaction.atomic():
        machine = locked(pk)
        require(user, "cancel_machine", machine)
        if not machine.busy:
            raise ConflictError("Nothing is asked of this machine.", "nothing-to-cancel")
        request_end(machine, user.get_username(), reason)
        machine.save_intent()
    return machine


def request_end(machine: Machine, username: str, reason: str) -> None:
    """Withdraw an unapproved intent, or note on the row who wants the end of a begun one; does not save."""
    if machine.intent_state == IntentStateChoices.REQUESTED:
        clear(machine, RunStateChoices.WITHDRAWN, result=f"Withdrawn by {username} before it was approved.")
    elif not machine.cancel_requested_by:
        machine.cancel_requested_by = username[:150]
        machine.cancel_requested_at = timezone.now()
        machine.cancel_reason = kept(reason)


def clear(machine: Machine, state: str, result: str = "") -> None:
    """Empty the intent's fields and make sure that a final Run remembers its UUID; does not save the machine."""
    now = timezone.now()
    run, created = Run.objects.get_or_create(
        run_id=machine.intent_id,
        defaults={
            "machine": machine,
            "machine_name": machine.node_name,
            "kind": machine.desired_action,
            "requester": machine.intent_requested_by,
            "state": state,
            "started": machine.intent_requested_at,
            "ended": now,
            "result": result[:500],
        },
    )
    if not created and not run.final:
        Run.objects.filter(pk=run.pk).update(state=state, ended=run.ended or now, result=run.result or result[:500])
    unheard = machine.statements.filter(intent_id=machine.intent_id, state=StatementStateChoices.GIVEN)
    over = "What this was said in ended before the service heard it."
    unheard.update(state=StatementStateChoices.REFUSED, answer=over)
    for name, value in _EMPTY.items():
        setattr(machine, name, value)


def require(user: Any, permission: str, target: Any) -> None:
    """Raise NotPermittedError unless the user holds the permission on this very object."""
    if isinstance(user, AnonymousUser) or not user.has_perm(f"netbox_fleet.{permission}", obj=target):
        raise NotPermittedError(f"You lack the permission {permission} on {target}.")


def _refuse_busy(machine: Machine) -> None:
    if machine.busy:
        raise ConflictError(
            f"{machine.get_desired_action_display()} is asked of this machine already, "
            f"by {machine.intent_requested_by}: cancel it or wait for its end.",
            "busy",
        )


def _refuse_gone(machine: Machine) -> None:
    if machine.gone:
        raise ConflictError(
            "This machine is retired. To use it again, move its device out of decommissioning first.", "retired"
        )


def _refuse_incomplete(machine: Machine, kind: str) -> None:
    if kind in ERASING_KINDS and not machine.disk_serial:
        raise ConflictError("No disk serial is declared, so nothing may be erased: enter it first.", "no-disk-serial")
    if kind == IntentKindChoices.PROVISION:
        if machine.machine_class is None:
            raise ConflictError("No class is chosen, so there is nothing to install.", "no-class")
        if not machine.machine_class.installable:
            raise ConflictError(
                f"Class {machine.machine_class} cannot be installed: "
                f"{machine.machine_class.reason or 'the service gives no reason'}.",
                "class-not-installable",
            )


def _refuse_wrong_serial(machine: Machine, request: Request) -> None:
    typed = folded(request.confirm_serial)
    if (request.kind in ERASING_KINDS or typed) and typed != machine.disk_serial:
        raise WrongSerialError("The typed serial is not the declared disk serial; nothing was asked.")
