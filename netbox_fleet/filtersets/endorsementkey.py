import django_filters
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from utilities.filtersets import register_filterset

from netbox_fleet.choices import ChainStatusChoices, KeyStatusChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import EndorsementKey, Machine


@register_filterset
class EndorsementKeyFilterSet(OfMachineFilterSet):
    candidate_id = django_filters.ModelMultipleChoiceFilter(
        field_name="candidates", queryset=Machine.objects.all(), label=_("Candidate machine (ID)")
    )
    status = django_filters.MultipleChoiceFilter(choices=KeyStatusChoices)
    chain_status = django_filters.MultipleChoiceFilter(choices=ChainStatusChoices)

    class Meta:
        model = EndorsementKey
        fields = (
            "id",
            "public_hash",
            "key_type",
            "certificate_sha256",
            "manufacturer",
            "model",
            "version",
            "first_seen_address",
            "decided_by",
            "decided_at",
        )

    def search(self, queryset, name, value):
        return queryset.filter(
            Q(public_hash__istartswith=value)
            | Q(certificate_sha256__istartswith=value)
            | Q(machine__node_name__icontains=value)
            | Q(manufacturer__icontains=value)
            | Q(first_seen_address__icontains=value)
        )
