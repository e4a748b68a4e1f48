import django_filters
from django.db.models import Q
from utilities.filtersets import register_filterset

from netbox_fleet.choices import IntentKindChoices, RunStateChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import Run


@register_filterset
class RunFilterSet(OfMachineFilterSet):
    kind = django_filters.MultipleChoiceFilter(choices=IntentKindChoices)
    state = django_filters.MultipleChoiceFilter(choices=RunStateChoices)

    class Meta:
        model = Run
        fields = ("id", "run_id", "machine_name", "requester", "percent", "result", "error", "started", "ended")

    def search(self, queryset, name, value):
        return queryset.filter(
            Q(machine_name__icontains=value)
            | Q(requester__icontains=value)
            | Q(error__icontains=value)
            | Q(result__icontains=value)
        )
