from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.views import generic
from utilities.views import register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import Statement
from netbox_fleet.ui import panels


@register_model_view(Statement, "list", path="", detail=False)
class StatementListView(generic.ObjectListView):
    queryset = Statement.objects.select_related("machine")
    filterset = filtersets.StatementFilterSet
    filterset_form = forms.StatementFilterForm
    table = tables.StatementTable
    actions = (BulkExport,)


@register_model_view(Statement)
class StatementView(generic.ObjectView):
    queryset = Statement.objects.select_related("machine")
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.StatementPanel()],
        right_panels=[TagsPanel(), CustomFieldsPanel()],
    )
