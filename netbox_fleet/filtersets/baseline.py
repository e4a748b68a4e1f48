import django_filters
from django.db.models import Q
from utilities.filtersets import register_filterset

from netbox_fleet.choices import BaselineDecisionChoices, BaselineStateChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import Baseline


@register_filterset
class BaselineFilterSet(OfMachineFilterSet):
    state = django_filters.MultipleChoiceFilter(choices=BaselineStateChoices)
    decision = django_filters.MultipleChoiceFilter(choices=BaselineDecisionChoices)

    class Meta:
        model = Baseline
        fields = ("id", "digest", "time", "decided_by", "decided_at")

    def search(self, queryset, name, value):
        return queryset.filter(Q(machine__node_name__icontains=value) | Q(digest__istartswith=value))
