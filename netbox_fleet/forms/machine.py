from dcim.models import Device, Site
from django import forms
from django.contrib.postgres.forms import SimpleArrayField
from django.utils.translation import gettext_lazy as _
from netbox.forms import NetBoxModelBulkEditForm, NetBoxModelFilterSetForm, NetBoxModelForm, NetBoxModelImportForm
from utilities.forms import BOOLEAN_WITH_BLANK_CHOICES
from utilities.forms.fields import (
    CSVModelChoiceField,
    DynamicModelChoiceField,
    DynamicModelMultipleChoiceField,
    TagFilterField,
)
from utilities.forms.rendering import FieldSet

from netbox_fleet.choices import CheckChoices, IntentKindChoices, IntentStateChoices, PhaseChoices
from netbox_fleet.models import Machine, MachineClass


class MachineForm(NetBoxModelForm):
    device = DynamicModelChoiceField(queryset=Device.objects.all(), selector=True)
    machine_class = DynamicModelChoiceField(queryset=MachineClass.objects.all(), required=False, label=_("Class"))

    fieldsets = (
        FieldSet("device", "node_name", "machine_class", "firmware", "tags", name=_("Machine")),
        FieldSet("disk_serial", "disk_wwn", "extra_disks", name=_("Disks")),
        FieldSet("bmc_address", "bmc_secret", name=_("Power")),
    )

    class Meta:
        model = Machine
        fields = (
            "device",
            "node_name",
            "machine_class",
            "disk_serial",
            "disk_wwn",
            "extra_disks",
            "bmc_address",
            "bmc_secret",
            "firmware",
            "tags",
        )


class MachineImportForm(NetBoxModelImportForm):
    device = CSVModelChoiceField(queryset=Device.objects.all(), to_field_name="name", help_text=_("Device (name)"))
    machine_class = CSVModelChoiceField(
        queryset=MachineClass.objects.all(),
        to_field_name="slug",
        required=False,
        error_messages={"invalid_choice": _("No service has reported class %(value)s.")},
        help_text=_("Class (slug), as the service has reported it"),
    )
    extra_disks = SimpleArrayField(forms.CharField(), required=False, help_text=_("Further disks to erase"))

    class Meta:
        model = Machine
        fields = (
            "device",
            "node_name",
            "machine_class",
            "disk_serial",
            "disk_wwn",
            "extra_disks",
            "bmc_address",
            "bmc_secret",
            "firmware",
            "tags",
        )


class MachineBulkEditForm(NetBoxModelBulkEditForm):
    machine_class = DynamicModelChoiceField(queryset=MachineClass.objects.all(), required=False, label=_("Class"))
    bmc_secret = forms.CharField(max_length=253, required=False, label=_("BMC secret"))
    firmware = forms.CharField(max_length=100, required=False)

    model = Machine
    fieldsets = (FieldSet("machine_class", "bmc_secret", "firmware", name=_("Machine")),)
    nullable_fields = ("machine_class", "firmware")


class MachineFilterForm(NetBoxModelFilterSetForm):
    model = Machine
    fieldsets = (
        FieldSet("q", "filter_id", "tag"),
        FieldSet("phase", "check_result", "desired_action", "intent_state", name=_("State")),
        FieldSet("machine_class_id", "site_id", "outdated", "drifted", name=_("Machine")),
    )
    phase = forms.MultipleChoiceField(choices=PhaseChoices, required=False)
    check_result = forms.MultipleChoiceField(choices=CheckChoices, required=False, label=_("Trust"))
    desired_action = forms.MultipleChoiceField(choices=IntentKindChoices, required=False)
    intent_state = forms.MultipleChoiceField(choices=IntentStateChoices, required=False)
    machine_class_id = DynamicModelMultipleChoiceField(
        queryset=MachineClass.objects.all(), required=False, label=_("Class")
    )
    site_id = DynamicModelMultipleChoiceField(queryset=Site.objects.all(), required=False, label=_("Site"))
    outdated = forms.NullBooleanField(
        required=False,
        label=_("Installed from an older version of its class"),
        widget=forms.Select(choices=BOOLEAN_WITH_BLANK_CHOICES),
    )
    drifted = forms.NullBooleanField(
        required=False,
        label=_("Hardware differs from what is declared"),
        widget=forms.Select(choices=BOOLEAN_WITH_BLANK_CHOICES),
    )
    tag = TagFilterField(model)
