"""`nodes/`: the owner's file of nodes, merged and applied as the person whose token asks."""

import json

from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from netbox.context_managers import event_tracking
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response
from rest_framework.views import APIView

from netbox_fleet.api.permissions import ActionPermission
from netbox_fleet.nodes.apply import apply
from netbox_fleet.nodes.plan import plan


class NodesBody(serializers.Serializer):
    """The nodes of a file; docs/how-to/nodes-file.md names the fields."""

    nodes = serializers.ListField(child=serializers.DictField())
    dry_run = serializers.BooleanField(required=False, default=False)


class DifferenceRow(serializers.Serializer):
    """A field in which the file and NetBox differ."""

    node = serializers.CharField()
    field = serializers.CharField()
    file = serializers.JSONField(allow_null=True)
    netbox = serializers.JSONField(allow_null=True)
    applied = serializers.JSONField(allow_null=True)


class ProblemRow(serializers.Serializer):
    """Why a node cannot be applied."""

    node = serializers.CharField(allow_blank=True)
    field = serializers.CharField(allow_blank=True)
    message = serializers.CharField()


class NodesAnswer(serializers.Serializer):
    """What was applied, or why nothing was; while it is being applied, lines of `done` and `of` come before it."""

    outcome = serializers.ChoiceField(choices=["applied", "unchanged", "refused", "planned"])
    nodes = serializers.IntegerField()
    created = serializers.ListField(child=serializers.CharField())
    changes = DifferenceRow(many=True)
    conflicts = DifferenceRow(many=True)
    kept = DifferenceRow(many=True)
    problems = ProblemRow(many=True)


class NodesView(APIView):
    """Merge the owner's file of nodes into NetBox: all of it, or nothing."""

    permission_classes = [ActionPermission]

    @extend_schema(
        operation_id="plugins_fleet_nodes", request=NodesBody, responses=dict.fromkeys((200, 409), NodesAnswer)
    )
    def post(self, request):
        if not isinstance(request.data, dict) or not isinstance(request.data.get("nodes"), list):
            raise ValidationError({"nodes": ["Must be a list of nodes."]})
        nodes, dry_run = request.data["nodes"], request.data.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise ValidationError({"dry_run": ["Must be true or false."]})
        found = plan(nodes, request.user)
        if dry_run:
            return Response(found.as_dict("refused" if found.refused else "planned"))
        if found.refused:
            return Response(found.as_dict("refused"), status=409)
        if not found.touched:
            return Response(found.as_dict("unchanged"))
        return StreamingHttpResponse(_lines(nodes, request), content_type="application/x-ndjson")


def _lines(nodes, request):
    """Apply while the answer is read: proxies see that it goes on, and a caller that goes away undoes everything.

    The middleware's own tracking of changes is over by then, so this part has its own.
    """
    with event_tracking(request._request):  # noqa: SLF001 -- DRF's name for Django's request
        for line in apply(nodes, request.user):
            yield json.dumps(line).encode() + b"\n"
