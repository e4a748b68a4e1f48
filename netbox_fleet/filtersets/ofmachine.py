import django_filters
from django.utils.translation import gettext_lazy as _
from netbox.filtersets import NetBoxModelFilterSet

from netbox_fleet.models import Machine


class OfMachineFilterSet(NetBoxModelFilterSet):
    """Filters of all records that belong to a machine."""

    machine_id = django_filters.ModelMultipleChoiceFilter(queryset=Machine.objects.all(), label=_("Machine (ID)"))
    machine = django_filters.ModelMultipleChoiceFilter(
        field_name="machine__node_name",
        queryset=Machine.objects.all(),
        to_field_name="node_name",
        label=_("Machine (node name)"),
    )
