from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from netbox.api.viewsets import NetBoxReadOnlyModelViewSet
from rest_framework.decorators import action
from rest_framework.response import Response

from netbox_fleet.actions import baselines
from netbox_fleet.api import actions as bodies
from netbox_fleet.api.serializers import BaselineSerializer
from netbox_fleet.api.views.acting import ActingViewSet
from netbox_fleet.api.views.machine import _number
from netbox_fleet.choices import BaselineDecisionChoices
from netbox_fleet.filtersets import BaselineFilterSet
from netbox_fleet.models import Baseline

_ANSWERS = bodies.answers(200, BaselineSerializer)


class BaselineViewSet(ActingViewSet, NetBoxReadOnlyModelViewSet):
    queryset = Baseline.objects.select_related("machine").prefetch_related("tags")
    serializer_class = BaselineSerializer
    filterset_class = BaselineFilterSet
    acts = frozenset({"accept", "decline"})

    @extend_schema(request=bodies.CancelBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def accept(self, request, pk=None):
        """Accept the offered measurements as good."""
        return self._decide(request, pk, BaselineDecisionChoices.ACCEPT)

    @extend_schema(request=bodies.CancelBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def decline(self, request, pk=None):
        """Decline the offered measurements: the machine goes into quarantine."""
        return self._decide(request, pk, BaselineDecisionChoices.DECLINE)

    def _decide(self, request, pk, decision):
        visible = Baseline.objects.restrict(request.user, "view")
        baseline = get_object_or_404(visible, pk=_number(pk))
        body = bodies.CancelBody(data=request.data or {})
        body.is_valid(raise_exception=True)
        baselines.decide(baseline.pk, decision, request.user, reason=body.validated_data["reason"])
        fresh = Baseline.objects.get(pk=baseline.pk)
        return Response(BaselineSerializer(fresh, context=self.get_serializer_context()).data)
