from django.db.models import Q
from netbox.filtersets import NetBoxModelFilterSet
from utilities.filtersets import register_filterset

from netbox_fleet.models import MachineClass


@register_filterset
class MachineClassFilterSet(NetBoxModelFilterSet):
    class Meta:
        model = MachineClass
        fields = ("id", "slug", "family", "installable", "reason", "warning", "two_person", "role", "digest", "seen_at")

    def search(self, queryset, name, value):
        return queryset.filter(Q(slug__icontains=value) | Q(family__icontains=value) | Q(role__icontains=value))
