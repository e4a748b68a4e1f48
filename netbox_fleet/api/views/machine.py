from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from netbox.api.viewsets import NetBoxModelViewSet
from rest_framework.decorators import action
from rest_framework.response import Response

from netbox_fleet.actions import intents, statements
from netbox_fleet.api import actions as bodies
from netbox_fleet.api.bulk import all_or_none, rows_of
from netbox_fleet.api.serializers import MachineSerializer, StatementSerializer
from netbox_fleet.api.views.acting import ActingViewSet
from netbox_fleet.choices import IntentKindChoices, StatementKindChoices
from netbox_fleet.filtersets import MachineFilterSet
from netbox_fleet.models import Machine

ACTIONS = frozenset({"provision", "attest", "wipe", "cancel", "approve", "release", "declare_lost", "vouch"})
_ANSWERS = bodies.answers(200, MachineSerializer)
_STATEMENT_ANSWERS = bodies.answers(201, StatementSerializer)
_BULK_ANSWERS = bodies.answers(200, MachineSerializer(many=True), bodies.BulkRefusalAnswer)


class MachineViewSet(ActingViewSet, NetBoxModelViewSet):
    queryset = Machine.objects.select_related("device", "machine_class").prefetch_related("tags")
    serializer_class = MachineSerializer
    filterset_class = MachineFilterSet
    acts = ACTIONS

    @extend_schema(request=bodies.AskBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def provision(self, request, pk=None):
        """Install the machine's class; erases the declared disk."""
        return self._ask(request, pk, IntentKindChoices.PROVISION)

    @extend_schema(request=bodies.AskBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def attest(self, request, pk=None):
        """Ask for a fresh attestation; erases nothing."""
        return self._ask(request, pk, IntentKindChoices.ATTEST)

    @extend_schema(request=bodies.AskBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def wipe(self, request, pk=None):
        """Erase the declared disks and revoke the machine's certificates."""
        return self._ask(request, pk, IntentKindChoices.WIPE)

    @extend_schema(request=bodies.CancelBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def cancel(self, request, pk=None):
        """Ask for the end of what is asked of the machine, at its next safe step."""
        body = _parsed(bodies.CancelBody, request.data)
        return self._do(request, pk, lambda machine: intents.cancel(machine, body["reason"], request.user))

    @extend_schema(request=bodies.ApproveBody, responses=_ANSWERS)
    @action(detail=True, methods=["post"])
    def approve(self, request, pk=None):
        """Approve what another person asked of the machine."""
        _parsed(bodies.ApproveBody, request.data)
        return self._do(request, pk, lambda machine: intents.approve(machine, request.user))

    @extend_schema(request=bodies.StatementBody, responses=_STATEMENT_ANSWERS)
    @action(detail=True, methods=["post"])
    def release(self, request, pk=None):
        """Ask that a quarantined machine be trusted again after its next good attest."""
        body = _parsed(bodies.StatementBody, request.data)
        return self._say(request, pk, lambda: statements.Words(StatementKindChoices.RELEASE, body["reason"]))

    @extend_schema(request=bodies.StatementBody, responses=_STATEMENT_ANSWERS)
    @action(detail=True, methods=["post"], url_path="declare-lost", url_name="declare-lost")
    def declare_lost(self, request, pk=None):
        """Let a wipe or retirement end without the machine: its disks are not erased."""
        body = _parsed(bodies.StatementBody, request.data)
        return self._say(request, pk, lambda: statements.Words(StatementKindChoices.LOST, body["reason"]))

    @extend_schema(request=bodies.VouchBody, responses=_STATEMENT_ANSWERS)
    @action(detail=True, methods=["post"])
    def vouch(self, request, pk=None):
        """Give your word in a retirement: that the machine is off, or that a disk may leave as it is."""
        body = _parsed(bodies.VouchBody, request.data)
        return self._say(request, pk, lambda: statements.vouched(**body))

    @extend_schema(request=bodies.BulkAskBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="provision", url_name="bulk-provision")
    def bulk_do_provision(self, request):
        """Install several machines, all or none."""
        return self._ask_many(request, IntentKindChoices.PROVISION)

    @extend_schema(request=bodies.BulkAskBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="attest", url_name="bulk-attest")
    def bulk_do_attest(self, request):
        """Ask several machines for a fresh attestation, all or none."""
        return self._ask_many(request, IntentKindChoices.ATTEST)

    @extend_schema(request=bodies.BulkAskBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="wipe", url_name="bulk-wipe")
    def bulk_do_wipe(self, request):
        """Wipe several machines, all or none."""
        return self._ask_many(request, IntentKindChoices.WIPE)

    @extend_schema(request=bodies.BulkCancelBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="cancel", url_name="bulk-cancel")
    def bulk_do_cancel(self, request):
        """Cancel what is asked of several machines, all or none."""
        rows = _parsed_rows(bodies.BulkCancelBody, request.data)
        return self._do_many(request, rows, lambda row: intents.cancel(row["id"], row["reason"], request.user))

    @extend_schema(request=bodies.BulkApproveBody(many=True), responses=_BULK_ANSWERS)
    @action(detail=False, methods=["post"], url_path="approve", url_name="bulk-approve")
    def bulk_do_approve(self, request):
        """Approve what is asked of several machines, all or none."""
        rows = _parsed_rows(bodies.BulkApproveBody, request.data)
        return self._do_many(request, rows, lambda row: intents.approve(row["id"], request.user))

    def _ask(self, request, pk, kind):
        asked = intents.Request(kind=kind, **_parsed(bodies.AskBody, request.data))
        return self._do(request, pk, lambda machine: intents.ask(machine, asked, request.user))

    def _ask_many(self, request, kind):
        rows = _parsed_rows(bodies.BulkAskBody, request.data)

        def act(row):
            words = {name: value for name, value in row.items() if name != "id"}
            return intents.ask(row["id"], intents.Request(kind=kind, **words), request.user)

        return self._do_many(request, rows, act)

    def _do(self, request, pk, act):
        # The base class restricted the queryset to what the user may add; an action has its own permission.
        visible = Machine.objects.restrict(request.user, "view")
        machine = get_object_or_404(visible, pk=_number(pk))
        act(machine.pk)
        return Response(self._shown([machine.pk])[0])

    def _say(self, request, pk, words):
        visible = Machine.objects.restrict(request.user, "view")
        machine = get_object_or_404(visible, pk=_number(pk))
        said = statements.say(machine.pk, words(), request.user)
        return Response(StatementSerializer(said, context=self.get_serializer_context()).data, status=201)

    def _do_many(self, request, rows, act):
        refused = all_or_none(Machine.objects.restrict(request.user, "view"), rows, act)
        return refused or Response(self._shown([row["id"] for row in rows]))

    def _shown(self, ids):
        machines = {machine.pk: machine for machine in Machine.objects.filter(pk__in=ids)}
        context = self.get_serializer_context()
        return MachineSerializer([machines[pk] for pk in ids], many=True, context=context).data


def _parsed(serializer, data):
    body = serializer(data=data or {})
    body.is_valid(raise_exception=True)
    return body.validated_data


def _parsed_rows(serializer, data):
    return rows_of(serializer(data=data, many=True))


def _number(pk):
    try:
        number = int(pk)
    except ValueError:
        raise Http404 from None
    if not 0 < number < 2**63:
        raise Http404
    return number
