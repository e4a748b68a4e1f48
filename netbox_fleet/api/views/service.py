"""The two endpoints of the service: what it reads, and what it reports."""

from django.core.exceptions import PermissionDenied
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from netbox_fleet.api.permissions import ActionPermission
from netbox_fleet.contract import HEADER, NEWEST, OLDEST, ContractView
from netbox_fleet.feed import cursor as cursors
from netbox_fleet.feed.pages import DEFAULT_LIMIT, MOST, page
from netbox_fleet.feed.records import records
from netbox_fleet.models import Machine
from netbox_fleet.reports import batch
from netbox_fleet.reports.schema import ReportsAnswer, ReportsBody

_CONTRACT = OpenApiParameter(
    HEADER,
    int,
    OpenApiParameter.HEADER,
    enum=range(OLDEST, NEWEST + 1),
    description="The contract that the caller speaks; one that is not served is refused with 409",
)


class DeclarationsView(ContractView):
    """All that NetBox says about the machines, by a change cursor."""

    permission_classes = [ActionPermission]

    @extend_schema(
        operation_id="plugins_fleet_declarations",
        parameters=[
            OpenApiParameter("cursor", str, description="Where the reader stands; none begins a full read"),
            OpenApiParameter("limit", int, description=f"Records per page, at most {MOST}"),
            OpenApiParameter("machine_id", int, description="Read this one machine now"),
            _CONTRACT,
        ],
        responses={200: OpenApiTypes.OBJECT},
    )
    def get(self, request):
        if not request.user.has_perm("netbox_fleet.view_machine"):
            raise PermissionDenied
        visible = Machine.objects.restrict(request.user, "view")
        if "machine_id" in request.GET:
            one = visible.filter(pk=_number(request.GET["machine_id"], "machine_id", 2**63 - 1))
            return Response({"cursor": "", "more": False, "full_read_required": False, "results": records(one)})
        limit = _number(request.GET.get("limit") or str(DEFAULT_LIMIT), "limit", 2**31)
        text = request.GET.get("cursor")
        try:
            cursor = cursors.parse(text) if text else None
        except cursors.BadCursorError as problem:
            raise ValidationError({"cursor": [str(problem)]}) from problem
        return Response(page(visible, cursor, min(limit, MOST)))


class ReportsView(ContractView):
    """What the service observed and did, in bulk; idempotent and ordered by each machine's sequence number."""

    permission_classes = [ActionPermission]

    @extend_schema(
        operation_id="plugins_fleet_reports",
        parameters=[_CONTRACT],
        request=ReportsBody,
        responses={200: ReportsAnswer},
    )
    def post(self, request):
        try:
            outcome = batch.apply(request.data, request.user)
        except batch.BadBodyError as problem:
            raise ValidationError({"detail": str(problem)}) from problem
        return Response(
            {
                "accepted": outcome.accepted,
                "stale": outcome.stale,
                "rejected": outcome.rejected,
                "unknown_classes": outcome.unknown_classes,
            }
        )


def _number(text, name, most):
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:20]) <= most:
        raise ValidationError({name: ["A positive number."]})
    return int(text)
