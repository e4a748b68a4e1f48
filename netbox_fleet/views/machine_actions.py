"""Pages on which a person asks something of machines: one, or all selected ones."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from netbox.views.generic.base import BaseMultiObjectView, BaseObjectView
from utilities.permissions import get_permission_for_model
from utilities.views import GetReturnURLMixin, register_model_view

from netbox_fleet.actions import intents, statements
from netbox_fleet.actions.reasons import kept
from netbox_fleet.actions.refusals import RefusalError
from netbox_fleet.choices import ERASING_KINDS, IntentKindChoices, StatementKindChoices
from netbox_fleet.forms import AskForm, CancelForm, ReasonedForm, VouchForm
from netbox_fleet.models import Machine

_COLORS = {
    "provision": "blue",
    "attest": "teal",
    "wipe": "red",
    "cancel": "orange",
    "approve": "green",
    "release": "green",
    "declare_lost": "red",
    "vouch": "orange",
}


def summary_of(machine):
    """Return what a person should see before they ask something of a machine."""
    device = machine.device
    return [
        (_("Machine"), machine.node_name),
        (_("Device"), f"{device} ({device.device_type}, serial {device.serial or '-'})"),
        (_("Site"), device.site),
        (_("Class"), machine.machine_class),
        (_("Phase"), machine.get_phase_display()),
        (_("Disk that is erased"), _disk(machine.disk_serial, machine.disk_wwn)),
        (_("Last seen on that disk"), last_contents(machine)),
    ]


def last_contents(machine):
    """Say what was last known to be on the declared disk."""
    run = machine.runs.filter(kind__in=ERASING_KINDS, state="succeeded").order_by("-ended").first()
    if run is None:
        return _("not known: no run of this fleet has written it")
    return f"{run.get_kind_display()}, {run.ended:%Y-%m-%d %H:%M} UTC: {run.result or run.get_state_display()}"


def _disk(serial, wwn):
    return f"{serial} (WWN {wwn})" if wwn else serial


class ActionView(GetReturnURLMixin, BaseObjectView):
    """One action on one machine."""

    queryset = Machine.objects.select_related("device__device_type", "device__site", "machine_class")
    template_name = "netbox_fleet/action.html"
    action = ""
    verb: str | Promise = ""

    def get_required_permission(self):
        return get_permission_for_model(Machine, self.action)

    def make_form(self, machine, data=None):
        return CancelForm(data)

    def act(self, machine, form):
        raise NotImplementedError

    def describe(self, machine):
        return {"summary": summary_of(machine)}

    def get(self, request, **kwargs):
        machine = self.get_object(**kwargs)
        return self._page(request, machine, self.make_form(machine))

    def post(self, request, **kwargs):
        machine = self.get_object(**kwargs)
        form = self.make_form(machine, request.POST)
        if not form.is_valid():
            return self._page(request, machine, form)
        try:
            self.act(machine, form)
        except RefusalError as problem:
            return self._page(request, machine, form, refusal=problem.detail)
        messages.success(request, _("{verb}: noted for {machine}.").format(verb=self.verb, machine=machine))
        return redirect(self.get_return_url(request, machine))

    def _page(self, request, machine, form, refusal=""):
        context = {
            "object": machine,
            "form": form,
            "refusal": refusal,
            "heading": f"{self.verb} {machine}",
            "verb": self.verb,
            "color": _COLORS[self.action],
            "return_url": self.get_return_url(request, machine),
            **self.describe(machine),
        }
        return render(request, self.template_name, context)


class AskView(ActionView):
    """Provision, attest or wipe."""

    def make_form(self, machine, data=None):
        may_force = self.request.user.has_perm("netbox_fleet.force_machine", obj=machine)
        return AskForm(self.action, data, may_force=may_force)

    def act(self, machine, form):
        intents.ask(machine.pk, form.asked(), self.request.user)

    def describe(self, machine):
        found = super().describe(machine)
        if self.action in ERASING_KINDS:
            extra = machine.extra_disks if self.action == IntentKindChoices.WIPE else []
            if extra:
                found["summary"].insert(6, (_("Further disks that are erased"), ", ".join(extra)))
            found["danger"] = _("All data on the named disks is destroyed.")
            if intents.needs_second_person(machine, self.action):
                found["waits"] = _("A second person must approve this before anything begins.")
        else:
            found["summary"] = found["summary"][:5]
        return found


@register_model_view(Machine, "provision")
class ProvisionView(AskView):
    action = "provision"
    verb = _("Provision")


@register_model_view(Machine, "attest")
class AttestView(AskView):
    action = "attest"
    verb = _("Attest")


@register_model_view(Machine, "wipe")
class WipeView(AskView):
    action = "wipe"
    verb = _("Wipe")


@register_model_view(Machine, "cancel")
class CancelView(ActionView):
    action = "cancel"
    verb = _("Cancel")

    def describe(self, machine):
        asked = (_("Asked"), f"{machine.get_desired_action_display()}, by {machine.intent_requested_by}")
        button = _("Cancel {what}").format(what=machine.get_desired_action_display())
        return {
            "heading": f"{button}: {machine}",
            "button": button,
            "summary": [*summary_of(machine)[:5], asked],
            "waits": _("What has begun ends at its next safe step, never inside an erase or a write."),
        }

    def act(self, machine, form):
        intents.cancel(machine.pk, form.cleaned_data["reason"], self.request.user)


@register_model_view(Machine, "approve")
class ApproveView(ActionView):
    action = "approve"
    verb = _("Approve")

    def describe(self, machine):
        asked = (
            _("Asked"),
            f"{machine.get_desired_action_display()}, by {machine.intent_requested_by}: {machine.intent_reason or '-'}",
        )
        found: dict[str, Any] = {"summary": [asked, *summary_of(machine)]}
        if machine.desired_action in ERASING_KINDS:
            found["danger"] = _("All data on the named disks is destroyed.")
        return found

    def act(self, machine, form):
        intents.approve(machine.pk, self.request.user)


class StatementView(ActionView):
    """What only a person can say of one machine."""

    waits: str | Promise = ""
    danger: str | Promise = ""

    def make_form(self, machine, data=None):
        return ReasonedForm(data)

    def words(self, form):
        raise NotImplementedError

    def act(self, machine, form):
        statements.say(machine.pk, self.words(form), self.request.user)

    def describe(self, machine):
        said = (_("The service says"), machine.message)
        asked = (_("Asked"), machine.get_desired_action_display())
        return {"summary": [*summary_of(machine)[:5], asked, said], "waits": self.waits, "danger": self.danger}


@register_model_view(Machine, "release")
class ReleaseView(StatementView):
    action = "release"
    verb = _("Release")
    waits = _("The quarantine ends with the next good attest: ask for one afterwards.")

    def words(self, form):
        return statements.Words(StatementKindChoices.RELEASE, form.cleaned_data["reason"])


@register_model_view(Machine, "declare_lost", path="declare-lost")
class DeclareLostView(StatementView):
    action = "declare_lost"
    verb = _("Declare lost")
    danger = _("Its disks are NOT erased: the wipe or retirement ends without them. Its credentials are withdrawn.")

    def words(self, form):
        return statements.Words(StatementKindChoices.LOST, form.cleaned_data["reason"])


@register_model_view(Machine, "vouch")
class VouchView(StatementView):
    action = "vouch"
    verb = _("Vouch")
    waits = _("The retirement goes on with your word, and its signed record names you.")

    def make_form(self, machine, data=None):
        return VouchForm(data)

    def words(self, form):
        return form.words()


class BulkActionView(GetReturnURLMixin, BaseMultiObjectView):
    """One action on all selected rows: all or none, with a reason for each row that is refused."""

    queryset = Machine.objects.select_related("device__site", "machine_class")
    template_name = "netbox_fleet/bulk_action.html"
    header = (_("Machine"), _("Site"), _("Class"), _("Phase"), _("Asked"), _("Disk serial"))
    action = ""
    verb: str | Promise = ""
    typed = False

    def get_required_permission(self):
        return get_permission_for_model(self.queryset.model, self.action)

    def cells(self, machine):
        return (
            machine.node_name,
            machine.device.site,
            machine.machine_class,
            machine.get_phase_display(),
            machine.get_desired_action_display(),
            machine.disk_serial,
        )

    def act(self, record, typed, reason):
        raise NotImplementedError

    def get(self, request):
        return redirect(self.get_return_url(request))

    def post(self, request):
        wanted = [int(pk) for pk in request.POST.getlist("pk") if pk.isascii() and pk.isdigit()][:1000]
        if request.POST.get("_all"):
            wanted = list(self.queryset.values_list("pk", flat=True)[:1000])
        records = list(self.queryset.filter(pk__in=wanted))
        if not records:
            messages.warning(request, _("Nothing was selected that you may do this to."))
            return redirect(self.get_return_url(request))
        reason = kept(request.POST.get("reason", ""))
        refusals = {}
        if "_confirm" in request.POST:
            refusals = self._act_on_all(request, records, reason)
            if not refusals:
                messages.success(request, _("{verb}: noted for {n}.").format(verb=self.verb, n=len(records)))
                return redirect(self.get_return_url(request))
        rows = [
            {
                "object": record,
                "cells": self.cells(record),
                "typed": request.POST.get(f"serial-{record.pk}", ""),
                "refusal": refusals.get(record.pk, ""),
            }
            for record in records
        ]
        context = {
            "rows": rows,
            "header": self.header,
            "typed": self.typed,
            "refused": bool(refusals),
            "reason": reason,
            "heading": f"{self.verb}: {len(records)}",
            "verb": self.verb,
            "color": _COLORS.get(self.action, "primary"),
            "danger": _("All data on the declared disks is destroyed.") if self.typed else "",
            "return_url": self.get_return_url(request),
        }
        return render(request, self.template_name, context)

    def _act_on_all(self, request, records, reason):
        refusals = {}
        with transaction.atomic():
            for record in records:
                try:
                    self.act(record, request.POST.get(f"serial-{record.pk}", ""), reason)
                except RefusalError as problem:
                    refusals[record.pk] = problem.detail
            if refusals:
                transaction.set_rollback(True)
        return refusals

    def get_return_url(self, request, obj=None):
        found = super().get_return_url(request, obj)
        return found or reverse("plugins:netbox_fleet:machine_list")


class BulkAskView(BulkActionView):
    """Provision, attest or wipe all selected machines."""

    def act(self, record, typed, reason):
        asked = intents.Request(kind=self.action, confirm_serial=typed, reason=reason)
        intents.ask(record.pk, asked, self.request.user)


@register_model_view(Machine, "bulk_provision", path="provision", detail=False)
class BulkProvisionView(BulkAskView):
    action = "provision"
    verb = _("Provision")
    typed = True


@register_model_view(Machine, "bulk_attest", path="attest", detail=False)
class BulkAttestView(BulkAskView):
    action = "attest"
    verb = _("Attest")


@register_model_view(Machine, "bulk_wipe", path="wipe", detail=False)
class BulkWipeView(BulkAskView):
    action = "wipe"
    verb = _("Wipe")
    typed = True


@register_model_view(Machine, "bulk_cancel", path="cancel", detail=False)
class BulkCancelView(BulkActionView):
    action = "cancel"
    verb = _("Cancel")

    def act(self, record, typed, reason):
        intents.cancel(record.pk, reason, self.request.user)


@register_model_view(Machine, "bulk_approve", path="approve", detail=False)
class BulkApproveView(BulkActionView):
    action = "approve"
    verb = _("Approve")

    def act(self, record, typed, reason):
        intents.approve(record.pk, self.request.user)
