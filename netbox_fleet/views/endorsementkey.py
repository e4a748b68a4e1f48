from django.contrib import messages
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import AddObject, BulkDelete, BulkEdit, BulkExport, BulkImport
from netbox.ui import layout
from netbox.views import generic
from netbox.views.generic.base import BaseObjectView
from utilities.views import GetReturnURLMixin, register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.actions import keys
from netbox_fleet.actions.refusals import RefusalError
from netbox_fleet.models import EndorsementKey, Machine
from netbox_fleet.ui import panels
from netbox_fleet.views import bulk_actions
from netbox_fleet.views.machine_actions import BulkActionView


@register_model_view(EndorsementKey, "list", path="", detail=False)
class EndorsementKeyListView(generic.ObjectListView):
    queryset = EndorsementKey.objects.select_related("machine").prefetch_related("candidates")
    filterset = filtersets.EndorsementKeyFilterSet
    filterset_form = forms.EndorsementKeyFilterForm
    table = tables.EndorsementKeyTable
    actions = (
        AddObject,
        BulkImport,
        BulkExport,
        bulk_actions.BulkApprove,
        bulk_actions.BulkReject,
        BulkEdit,
        BulkDelete,
    )


@register_model_view(EndorsementKey)
class EndorsementKeyView(generic.ObjectView):
    queryset = EndorsementKey.objects.select_related("machine")
    template_name = "generic/object.html"
    layout = layout.SimpleLayout(
        left_panels=[panels.EndorsementKeyPanel(), TagsPanel(), CustomFieldsPanel()],
        right_panels=[panels.TPMPanel(), panels.FindingsPanel()],
    )


@register_model_view(EndorsementKey, "add", detail=False)
@register_model_view(EndorsementKey, "edit")
class EndorsementKeyEditView(generic.ObjectEditView):
    queryset = EndorsementKey.objects.all()
    form = forms.EndorsementKeyForm


@register_model_view(EndorsementKey, "delete")
class EndorsementKeyDeleteView(generic.ObjectDeleteView):
    queryset = EndorsementKey.objects.all()


@register_model_view(EndorsementKey, "bulk_import", path="import", detail=False)
class EndorsementKeyBulkImportView(generic.BulkImportView):
    queryset = EndorsementKey.objects.all()
    model_form = forms.EndorsementKeyImportForm


@register_model_view(EndorsementKey, "bulk_edit", path="edit", detail=False)
class EndorsementKeyBulkEditView(generic.BulkEditView):
    queryset = EndorsementKey.objects.select_related("machine")
    filterset = filtersets.EndorsementKeyFilterSet
    table = tables.EndorsementKeyTable
    form = forms.EndorsementKeyBulkEditForm


@register_model_view(EndorsementKey, "bulk_delete", path="delete", detail=False)
class EndorsementKeyBulkDeleteView(generic.BulkDeleteView):
    queryset = EndorsementKey.objects.select_related("machine")
    filterset = filtersets.EndorsementKeyFilterSet
    table = tables.EndorsementKeyTable


class KeyDecisionView(GetReturnURLMixin, BaseObjectView):
    """A person's word on one key."""

    queryset = EndorsementKey.objects.select_related("machine__device")
    verb: str | Promise = ""
    color = ""

    def get_required_permission(self):
        return "netbox_fleet.approve_endorsementkey"

    def machines(self):
        return None

    def act(self, key, words):
        raise NotImplementedError

    def get(self, request, **kwargs):
        key = self.get_object(**kwargs)
        return self._page(request, key, forms.KeyDecisionForm(key, self.machines()))

    def post(self, request, **kwargs):
        key = self.get_object(**kwargs)
        form = forms.KeyDecisionForm(key, self.machines(), request.POST)
        if not form.is_valid():
            return self._page(request, key, form)
        try:
            self.act(key, form.cleaned_data)
        except RefusalError as problem:
            return self._page(request, key, form, refusal=problem.detail)
        messages.success(request, _("{verb}: noted for key {key}.").format(verb=self.verb, key=key))
        return redirect(self.get_return_url(request, key))

    @staticmethod
    def _described(machine):
        """Name the machine with what its label says, to be compared."""
        if machine is None:
            return ""
        return f"{machine} ({_('serial number')} {machine.device.serial or '-'})"

    def _page(self, request, key, form, refusal=""):
        summary = [
            (_("Public hash"), key.public_hash),
            (_("Certificate"), key.certificate_sha256),
            (_("Vouched for by"), key.get_chain_status_display()),
            (_("TPM"), f"{key.manufacturer} {key.model} {key.version}".strip()),
            (_("Machine"), self._described(key.machine)),
            (_("May belong to"), ", ".join(str(machine) for machine in key.candidates.all()[:20])),
            (_("First seen at"), key.first_seen_address),
        ]
        context = {
            "object": key,
            "form": form,
            "refusal": refusal,
            "summary": summary,
            "heading": f"{self.verb} {_('endorsement key')} {key}",
            "verb": self.verb,
            "color": self.color,
            "return_url": self.get_return_url(request, key),
        }
        return render(request, "netbox_fleet/action.html", context)


@register_model_view(EndorsementKey, "approve")
class KeyApproveView(KeyDecisionView):
    verb = _("Approve")
    color = "green"

    def machines(self):
        return Machine.objects.restrict(self.request.user, "view")

    def act(self, key, words):
        keys.approve(key.pk, self.request.user, machine=words.get("machine"), reason=words["reason"])


@register_model_view(EndorsementKey, "reject")
class KeyRejectView(KeyDecisionView):
    verb = _("Reject")
    color = "red"

    def act(self, key, words):
        keys.reject(key.pk, self.request.user, reason=words["reason"])


class BulkKeyView(BulkActionView):
    """A person's word on all selected keys."""

    queryset = EndorsementKey.objects.select_related("machine")
    action = "approve"
    header = (_("Key"), _("Machine"), _("Status"), _("Vouched for by"), _("TPM"), _("First seen at"))

    def cells(self, key):
        return (
            str(key),
            key.machine,
            key.get_status_display(),
            key.get_chain_status_display(),
            f"{key.manufacturer} {key.model}".strip(),
            key.first_seen_address,
        )


@register_model_view(EndorsementKey, "bulk_approve", path="approve", detail=False)
class BulkKeyApproveView(BulkKeyView):
    verb = _("Approve")

    def act(self, record, typed, reason):
        keys.approve(record.pk, self.request.user, reason=reason)


@register_model_view(EndorsementKey, "bulk_reject", path="reject", detail=False)
class BulkKeyRejectView(BulkKeyView):
    verb = _("Reject")

    def act(self, record, typed, reason):
        keys.reject(record.pk, self.request.user, reason=reason)
