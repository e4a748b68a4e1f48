from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from netbox.api.viewsets import NetBoxModelViewSet
from rest_framework.decorators import action
from rest_framework.response import Response

from netbox_fleet.actions import keys
from netbox_fleet.api import actions as bodies
from netbox_fleet.api.bulk import all_or_none, rows_of
from netbox_fleet.api.serializers import EndorsementKeySerializer
from netbox_fleet.api.views.acting import ActingViewSet
from netbox_fleet.api.views.machine import _number
from netbox_fleet.filtersets import EndorsementKeyFilterSet
from netbox_fleet.models import EndorsementKey, Machine

_ANSWERS = bodies.answers(200, EndorsementKeySerializer)
_BULK_ANSWERS = bodies.answers(200, EndorsementKeySerializer(many=True), bodies.BulkRefusalAnswer)


class EndorsementKeyViewSet(ActingViewSet, NetBoxModelViewSet):
    queryset = EndorsementKey.objects.select_related("machine").prefetch_related("tags", "candidates")
    serializer_class = EndorsementKeySerializer
    filterset_class = EndorsementKeyFilterSet
    acts = frozenset({"approve", "reject"})

    @extend_schema(request=bodies.KeyDecisionBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def approve(self, request, pk=None):
        """Approve the key for its machine."""
        return self._decide(request, pk, keys.approve)

    @extend_schema(request=bodies.KeyDecisionBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def reject(self, request, pk=None):
        """Reject the key."""
        return self._decide(request, pk, keys.reject)

    @extend_schema(request=bodies.BulkKeyDecisionBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="approve", url_name="bulk-approve")
    def bulk_do_approve(self, request):
        """Approve several keys, all or none."""
        return self._decide_many(
            request, lambda row: keys.approve(row["id"], request.user, machine=row.get("machine"), reason=row["reason"])
        )

    @extend_schema(request=bodies.BulkKeyDecisionBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="reject", url_name="bulk-reject")
    def bulk_do_reject(self, request):
        """Reject several keys, all or none."""
        return self._decide_many(request, lambda row: keys.reject(row["id"], request.user, reason=row["reason"]))

    def _decide_many(self, request, decide):
        body = bodies.BulkKeyDecisionBody(data=request.data, many=True)
        body.child.fields["machine"].queryset = Machine.objects.restrict(request.user, "view")
        rows = rows_of(body)
        refused = all_or_none(EndorsementKey.objects.restrict(request.user, "view"), rows, decide)
        if refused is not None:
            return refused
        wanted = [row["id"] for row in rows]
        found = self.queryset.model.objects.in_bulk(wanted)
        context = self.get_serializer_context()
        return Response(EndorsementKeySerializer([found[pk] for pk in wanted], many=True, context=context).data)

    def _decide(self, request, pk, decide):
        visible = EndorsementKey.objects.restrict(request.user, "view")
        key = get_object_or_404(visible, pk=_number(pk))
        body = bodies.KeyDecisionBody(data=request.data or {})
        body.fields["machine"].queryset = Machine.objects.restrict(request.user, "view")
        body.is_valid(raise_exception=True)
        words = {"reason": body.validated_data["reason"]}
        if decide is keys.approve:
            words["machine"] = body.validated_data.get("machine")
        decide(key.pk, request.user, **words)
        fresh = EndorsementKey.objects.get(pk=key.pk)
        return Response(EndorsementKeySerializer(fresh, context=self.get_serializer_context()).data)
