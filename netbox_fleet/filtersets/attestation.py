import django_filters
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from utilities.filtersets import register_filterset

from netbox_fleet.choices import AttestationKindChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import Attestation, Run


@register_filterset
class AttestationFilterSet(OfMachineFilterSet):
    run_id = django_filters.ModelMultipleChoiceFilter(field_name="run", queryset=Run.objects.all(), label=_("Run (ID)"))
    kind = django_filters.MultipleChoiceFilter(choices=AttestationKindChoices)

    class Meta:
        model = Attestation
        fields = ("id", "attestation_id", "machine_name", "passed", "policy", "pcr_digest", "secure_boot", "time")

    def search(self, queryset, name, value):
        return queryset.filter(
            Q(machine_name__icontains=value) | Q(policy__icontains=value) | Q(pcr_digest__istartswith=value)
        )
