"""A person's word on an offered baseline."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from netbox_fleet.actions.intents import require
from netbox_fleet.actions.reasons import kept
from netbox_fleet.actions.refusals import ConflictError
from netbox_fleet.models import Baseline


def decide(pk: int, decision: str, user: Any, *, reason: str = "") -> Baseline:
    """Accept or decline an offered baseline; the service acts on the word and reports the new state.

    Raises NotPermittedError, and ConflictError where it is not open any more.
    """
    with transaction.atomic():
        baseline = Baseline.objects.select_for_update(of=("self",)).select_related("machine").get(pk=pk)
        baseline.snapshot()
        require(user, "accept_baseline", baseline)
        if not baseline.open:
            raise ConflictError("This baseline does not wait for a decision.", "already-decided")
        baseline.decision = decision
        baseline.decided_by = user.get_username()[:150]
        baseline.decided_at = timezone.now()
        baseline.decision_reason = kept(reason)
        baseline.save_guarded(*baseline.guarded)
    return baseline
