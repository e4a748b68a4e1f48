from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.views import generic
from utilities.views import register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import Attestation
from netbox_fleet.ui import panels


@register_model_view(Attestation, "list", path="", detail=False)
class AttestationListView(generic.ObjectListView):
    queryset = Attestation.objects.select_related("machine", "run")
    filterset = filtersets.AttestationFilterSet
    filterset_form = forms.AttestationFilterForm
    table = tables.AttestationTable
    actions = (BulkExport,)


@register_model_view(Attestation)
class AttestationView(generic.ObjectView):
    queryset = Attestation.objects.select_related("machine", "run")
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.AttestationPanel(), panels.FindingsPanel(), TagsPanel(), CustomFieldsPanel()],
        right_panels=[panels.PairsPanel("facts", title="Facts"), panels.PairsPanel("pcrs", title="PCRs")],
    )
