"""A person's word on an endorsement key."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from netbox_fleet.actions.intents import require
from netbox_fleet.actions.reasons import kept
from netbox_fleet.actions.refusals import ConflictError
from netbox_fleet.choices import KeyStatusChoices
from netbox_fleet.models import EndorsementKey, Machine
from netbox_fleet.models.endorsementkey import DECISION_FIELDS


def approve(pk: int, user: Any, *, machine: Machine | None = None, reason: str = "") -> EndorsementKey:
    """Approve a key for a machine: the one it is bound to, or the given one where it has none yet.

    Raises NotPermittedError, and ConflictError where no machine is known or the key is bound to another one.
    """
    with transaction.atomic():
        key = _locked(pk)
        require(user, "approve_endorsementkey", key)
        if key.status == KeyStatusChoices.APPROVED:
            raise ConflictError("This key is approved already.", "already-decided")
        if machine is not None and key.machine_id not in (None, machine.pk):
            raise ConflictError(f"This key is bound to {key.machine}, not to {machine}.", "bound-elsewhere")
        if machine is not None:
            key.machine = machine
        if key.machine is None:
            raise ConflictError("This key belongs to no machine yet: say which.", "no-machine")
        _decide(key, KeyStatusChoices.APPROVED, user, reason)
        # A grant may be limited to keys of certain machines: it must hold for the machine just chosen, too.
        require(user, "approve_endorsementkey", key)
    return key


def reject(pk: int, user: Any, *, reason: str = "") -> EndorsementKey:
    """Reject a key, also one that was approved before.

    Raises NotPermittedError and ConflictError.
    """
    with transaction.atomic():
        key = _locked(pk)
        require(user, "approve_endorsementkey", key)
        if key.status == KeyStatusChoices.REJECTED:
            raise ConflictError("This key is rejected already.", "already-decided")
        _decide(key, KeyStatusChoices.REJECTED, user, reason)
    return key


def _locked(pk: int) -> EndorsementKey:
    key = EndorsementKey.objects.select_for_update(of=("self",)).select_related("machine").get(pk=pk)
    key.snapshot()
    return key


def _decide(key: EndorsementKey, status: str, user: Any, reason: str) -> None:
    key.status = status
    key.decided_by = user.get_username()[:150]
    key.decided_at = timezone.now()
    key.decision_reason = kept(reason)
    key.save_guarded(*DECISION_FIELDS, "machine")
