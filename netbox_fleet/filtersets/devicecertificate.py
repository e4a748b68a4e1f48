import django_filters
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from utilities.filtersets import register_filterset

from netbox_fleet.choices import CertificateKindChoices
from netbox_fleet.filtersets.ofmachine import OfMachineFilterSet
from netbox_fleet.models import DeviceCertificate


@register_filterset
class DeviceCertificateFilterSet(OfMachineFilterSet):
    kind = django_filters.MultipleChoiceFilter(choices=CertificateKindChoices)
    revoked = django_filters.BooleanFilter(
        field_name="revoked_at", lookup_expr="isnull", exclude=True, label=_("Is revoked")
    )

    class Meta:
        model = DeviceCertificate
        fields = (
            "id",
            "machine_name",
            "serial",
            "fingerprint",
            "not_before",
            "not_after",
            "issuer",
            "revoked_at",
            "revocation_reason",
        )

    def search(self, queryset, name, value):
        return queryset.filter(
            Q(machine_name__icontains=value) | Q(serial__icontains=value) | Q(fingerprint__istartswith=value)
        )
