from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.views import generic
from utilities.views import register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import BootCheck
from netbox_fleet.ui import panels


@register_model_view(BootCheck, "list", path="", detail=False)
class BootCheckListView(generic.ObjectListView):
    queryset = BootCheck.objects.select_related("machine")
    filterset = filtersets.BootCheckFilterSet
    filterset_form = forms.BootCheckFilterForm
    table = tables.BootCheckTable
    actions = (BulkExport,)


@register_model_view(BootCheck)
class BootCheckView(generic.ObjectView):
    queryset = BootCheck.objects.select_related("machine")
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.BootCheckPanel(), panels.FindingsPanel()],
        right_panels=[panels.DifferencePanel(), TagsPanel(), CustomFieldsPanel()],
    )
