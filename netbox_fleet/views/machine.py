from django.utils.translation import gettext_lazy as _
from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import AddObject, BulkDelete, BulkEdit, BulkExport, BulkImport
from netbox.ui import layout
from netbox.ui.panels import ObjectsTablePanel
from netbox.views import generic
from utilities.views import ViewTab, register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import Machine
from netbox_fleet.ui import panels
from netbox_fleet.ui.live import refreshed
from netbox_fleet.ui.timeline import timeline
from netbox_fleet.views import bulk_actions


def _records(model, *known):
    """Return a panel with this machine's records of a model, without the columns that the page says already."""
    filters = {"machine_id": lambda ctx: ctx["object"].pk}
    return ObjectsTablePanel(f"netbox_fleet.{model}", filters=filters, exclude_columns=list(known))


@register_model_view(Machine, "list", path="", detail=False)
class MachineListView(generic.ObjectListView):
    queryset = Machine.objects.select_related("device__site", "machine_class")
    filterset = filtersets.MachineFilterSet
    filterset_form = forms.MachineFilterForm
    table = tables.MachineTable
    actions = (
        AddObject,
        BulkImport,
        BulkExport,
        bulk_actions.BulkProvision,
        bulk_actions.BulkAttest,
        bulk_actions.BulkWipe,
        bulk_actions.BulkCancel,
        bulk_actions.BulkApprove,
        BulkEdit,
        BulkDelete,
    )


@register_model_view(Machine)
class MachineView(generic.ObjectView):
    queryset = Machine.objects.select_related("device__site", "device__device_type", "machine_class")
    template_name = "generic/object.html"
    layout = layout.SimpleLayout(
        left_panels=[panels.LivePanel(), panels.DriftPanel(), panels.CheckStripPanel()],
        right_panels=[panels.MachinePanel(), TagsPanel(), CustomFieldsPanel()],
        bottom_panels=[
            _records("Run", "machine", "machine_name"),
            _records("EndorsementKey", "machine", "candidates"),
            _records("Attestation", "machine", "machine_name"),
            _records("DeviceCertificate", "machine", "machine_name"),
            _records("Baseline", "machine"),
            _records("BootCheck", "machine"),
        ],
    )


@register_model_view(Machine, "live")
class MachineLiveView(generic.ObjectView):
    """The part of the page that refreshes itself."""

    queryset = Machine.objects.select_related("device", "machine_class")

    def get(self, request, **kwargs):
        return refreshed(request, self.get_object(**kwargs))


@register_model_view(Machine, "timeline")
class MachineTimelineView(generic.ObjectView):
    queryset = Machine.objects.select_related("device")
    template_name = "netbox_fleet/machine_timeline.html"
    tab = ViewTab(label=_("Timeline"), weight=500)

    def get_extra_context(self, request, instance):
        return {"timeline": timeline(instance, request.user)}


@register_model_view(Machine, "add", detail=False)
@register_model_view(Machine, "edit")
class MachineEditView(generic.ObjectEditView):
    queryset = Machine.objects.all()
    form = forms.MachineForm


@register_model_view(Machine, "delete")
class MachineDeleteView(generic.ObjectDeleteView):
    queryset = Machine.objects.all()


@register_model_view(Machine, "bulk_import", path="import", detail=False)
class MachineBulkImportView(generic.BulkImportView):
    queryset = Machine.objects.all()
    model_form = forms.MachineImportForm


@register_model_view(Machine, "bulk_edit", path="edit", detail=False)
class MachineBulkEditView(generic.BulkEditView):
    queryset = Machine.objects.select_related("device__site", "machine_class")
    filterset = filtersets.MachineFilterSet
    table = tables.MachineTable
    form = forms.MachineBulkEditForm


@register_model_view(Machine, "bulk_delete", path="delete", detail=False)
class MachineBulkDeleteView(generic.BulkDeleteView):
    queryset = Machine.objects.select_related("device__site", "machine_class")
    filterset = filtersets.MachineFilterSet
    table = tables.MachineTable
