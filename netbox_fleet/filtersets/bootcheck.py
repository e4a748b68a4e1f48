import django_filters
from django.db.models import Q
from utilities.filtersets import register_filterset

from netbox_fleet.choices import CheckChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import BootCheck


@register_filterset
class BootCheckFilterSet(OfMachineFilterSet):
    result = django_filters.MultipleChoiceFilter(choices=CheckChoices)

    class Meta:
        model = BootCheck
        fields = ("id", "time")

    def search(self, queryset, name, value):
        return queryset.filter(Q(machine__node_name__icontains=value) | Q(result__icontains=value))
