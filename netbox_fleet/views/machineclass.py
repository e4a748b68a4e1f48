from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _
from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.ui.panels import ObjectsTablePanel
from netbox.views import generic
from utilities.query import count_related
from utilities.views import register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import Machine, MachineClass
from netbox_fleet.ui import panels


def _of_this(ctx):
    return ctx["object"].pk


def _outdated_count():
    """Count the machines of a class that were installed from another version of it than the one in force."""
    machines = Machine.objects.filter(machine_class=OuterRef("pk")).exclude(
        Q(installed_digest="") | Q(installed_digest=OuterRef("digest"))
    )
    counted = machines.order_by().values("machine_class").annotate(n=Count("*")).values("n")
    return Coalesce(Subquery(counted), 0)


@register_model_view(MachineClass, "list", path="", detail=False)
class MachineClassListView(generic.ObjectListView):
    queryset = MachineClass.objects.annotate(
        machine_count=count_related(Machine, "machine_class"), outdated_count=_outdated_count()
    )
    filterset = filtersets.MachineClassFilterSet
    filterset_form = forms.MachineClassFilterForm
    table = tables.MachineClassTable
    actions = (BulkExport,)


@register_model_view(MachineClass)
class MachineClassView(generic.ObjectView):
    queryset = MachineClass.objects.all()
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.MachineClassPanel()],
        right_panels=[TagsPanel(), CustomFieldsPanel()],
        bottom_panels=[
            ObjectsTablePanel(
                "netbox_fleet.Machine",
                title=_("Installed from an older version of this class"),
                filters={"machine_class_id": _of_this, "outdated": True},
            ),
            ObjectsTablePanel("netbox_fleet.Machine", filters={"machine_class_id": _of_this}),
        ],
    )
