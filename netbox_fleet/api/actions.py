"""Bodies of the actions and the answers to refused ones."""

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from netbox_fleet.actions.reasons import REASON_LENGTH
from netbox_fleet.actions.refusals import RefusalError
from netbox_fleet.models import Machine
from netbox_fleet.plain_text import clean_text


class ReasonField(serializers.CharField):
    def __init__(self, **kwargs):
        super().__init__(max_length=REASON_LENGTH, required=False, allow_blank=True, default="", **kwargs)

    def to_internal_value(self, data):
        return clean_text(super().to_internal_value(data))


class DemandedReasonField(serializers.CharField):
    """Words without which the action is refused."""

    def __init__(self, **kwargs):
        super().__init__(max_length=REASON_LENGTH, **kwargs)

    def to_internal_value(self, data):
        return clean_text(super().to_internal_value(data))


class AskBody(serializers.Serializer):
    """What a person asks of one machine."""

    confirm_serial = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    reason = ReasonField()
    force_budget = serializers.BooleanField(required=False, default=False)
    reboot = serializers.BooleanField(required=False, default=False)


class BulkAskBody(AskBody):
    """What a person asks of one of several machines."""

    id = serializers.IntegerField(min_value=1)


class CancelBody(serializers.Serializer):
    """Why the current intent should end."""

    reason = ReasonField()


class BulkCancelBody(CancelBody):
    id = serializers.IntegerField(min_value=1)


class ApproveBody(serializers.Serializer):
    """Nothing: the approval is the call."""


class BulkApproveBody(ApproveBody):
    id = serializers.IntegerField(min_value=1)


class StatementBody(serializers.Serializer):
    """Why a person says so."""

    reason = DemandedReasonField()


class VouchBody(StatementBody):
    """What a person vouches for: that the machine is off, or that one disk may leave as it is."""

    power_off = serializers.BooleanField(required=False, default=False)
    disk = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")


class KeyDecisionBody(serializers.Serializer):
    """A word on an endorsement key; `machine` where the key belongs to none yet."""

    machine = serializers.PrimaryKeyRelatedField(queryset=Machine.objects.all(), required=False, allow_null=True)
    reason = ReasonField()


class BulkKeyDecisionBody(KeyDecisionBody):
    id = serializers.IntegerField(min_value=1)


class RefusalAnswer(serializers.Serializer):
    """Why an action was refused."""

    detail = serializers.CharField()
    code = serializers.CharField()


class BulkRefusalAnswer(RefusalAnswer):
    """Why a bulk action was refused: nothing was changed."""

    errors = serializers.DictField(
        child=RefusalAnswer(), required=False, help_text="Id of each refused record to the reason"
    )


def answers(status: int, done: Any, refusal: type[RefusalAnswer] = RefusalAnswer) -> dict[int, Any]:
    """Return what an action answers, by status: what was done, or why it was refused."""
    return {status: done, **dict.fromkeys((400, 403, 404, 409), refusal)}


def refused(problem: RefusalError) -> Response:
    """Return the answer to a refused action."""
    return Response({"detail": problem.detail, "code": problem.code}, status=problem.status)
