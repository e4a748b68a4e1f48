import django_filters
from dcim.models import Device, Site
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from netbox.filtersets import NetBoxModelFilterSet
from utilities.filtersets import register_filterset

from netbox_fleet.choices import CheckChoices, IntentKindChoices, IntentStateChoices, PhaseChoices
from netbox_fleet.models import Machine, MachineClass


@register_filterset
class MachineFilterSet(NetBoxModelFilterSet):
    device_id = django_filters.ModelMultipleChoiceFilter(queryset=Device.objects.all(), label=_("Device (ID)"))
    device = django_filters.ModelMultipleChoiceFilter(
        field_name="device__name", queryset=Device.objects.all(), to_field_name="name", label=_("Device (name)")
    )
    site_id = django_filters.ModelMultipleChoiceFilter(
        field_name="device__site", queryset=Site.objects.all(), label=_("Site (ID)")
    )
    site = django_filters.ModelMultipleChoiceFilter(
        field_name="device__site__slug", queryset=Site.objects.all(), to_field_name="slug", label=_("Site (slug)")
    )
    machine_class_id = django_filters.ModelMultipleChoiceFilter(
        queryset=MachineClass.objects.all(), label=_("Class (ID)")
    )
    machine_class = django_filters.ModelMultipleChoiceFilter(
        field_name="machine_class__slug",
        queryset=MachineClass.objects.all(),
        to_field_name="slug",
        label=_("Class (slug)"),
    )
    phase = django_filters.MultipleChoiceFilter(choices=PhaseChoices)
    check_result = django_filters.MultipleChoiceFilter(choices=CheckChoices)
    desired_action = django_filters.MultipleChoiceFilter(choices=IntentKindChoices)
    intent_state = django_filters.MultipleChoiceFilter(choices=IntentStateChoices)
    outdated = django_filters.BooleanFilter(
        method="filter_outdated", label=_("Installed from another version of its class than the one in force")
    )
    drifted = django_filters.BooleanFilter(method="filter_drifted", label=_("Reports hardware other than declared"))
    busy = django_filters.BooleanFilter(method="filter_busy", label=_("Something is asked of it"))

    class Meta:
        model = Machine
        fields = (
            "id",
            "node_name",
            "disk_serial",
            "disk_wwn",
            "bmc_address",
            "bmc_secret",
            "firmware",
            "installed_digest",
            "intent_id",
            "intent_requested_by",
            "intent_requested_at",
            "phase_since",
            "percent",
            "last_seen",
            "last_check",
        )

    def search(self, queryset, name, value):
        return queryset.filter(
            Q(node_name__icontains=value)
            | Q(device__name__icontains=value)
            | Q(device__serial__icontains=value)
            | Q(disk_serial__icontains=value)
            | Q(bmc_address__icontains=value)
        )

    def filter_busy(self, queryset, name, value):
        return queryset.exclude(desired_action="") if value else queryset.filter(desired_action="")

    def filter_outdated(self, queryset, name, value):
        outdated = ~Q(installed_digest="") & ~Q(installed_digest=F("machine_class__digest"))
        return queryset.filter(outdated, machine_class__isnull=False) if value else queryset.exclude(outdated)

    def filter_drifted(self, queryset, name, value):
        return queryset.exclude(drift=[]) if value else queryset.filter(drift=[])
