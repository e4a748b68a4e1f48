import django_filters
from django.db.models import Q
from utilities.filtersets import register_filterset

from netbox_fleet.choices import StatementKindChoices, StatementStateChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import Statement


@register_filterset
class StatementFilterSet(OfMachineFilterSet):
    kind = django_filters.MultipleChoiceFilter(choices=StatementKindChoices)
    state = django_filters.MultipleChoiceFilter(choices=StatementStateChoices)

    class Meta:
        model = Statement
        fields = ("id", "statement_id", "intent_id", "machine_name", "subject", "by", "time")

    def search(self, queryset, name, value):
        return queryset.filter(
            Q(machine_name__icontains=value)
            | Q(subject__icontains=value)
            | Q(by__icontains=value)
            | Q(reason__icontains=value)
        )
