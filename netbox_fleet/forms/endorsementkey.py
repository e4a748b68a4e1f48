from django import forms
from django.utils.translation import gettext_lazy as _
from netbox.forms import NetBoxModelBulkEditForm, NetBoxModelFilterSetForm, NetBoxModelForm, NetBoxModelImportForm
from utilities.forms.fields import (
    CSVModelChoiceField,
    DynamicModelChoiceField,
    DynamicModelMultipleChoiceField,
    TagFilterField,
)
from utilities.forms.rendering import FieldSet

from netbox_fleet.choices import ChainStatusChoices, KeyStatusChoices
from netbox_fleet.models import EndorsementKey, Machine


class EndorsementKeyForm(NetBoxModelForm):
    machine = DynamicModelChoiceField(queryset=Machine.objects.all(), required=False)

    fieldsets = (
        FieldSet("machine", "public_hash", "certificate_sha256", "tags", name=_("Endorsement key")),
        FieldSet("key_type", "manufacturer", "model", "version", name=_("TPM")),
    )

    class Meta:
        model = EndorsementKey
        fields = (
            "machine",
            "public_hash",
            "certificate_sha256",
            "key_type",
            "manufacturer",
            "model",
            "version",
            "tags",
        )


class EndorsementKeyImportForm(NetBoxModelImportForm):
    machine = CSVModelChoiceField(
        queryset=Machine.objects.all(), to_field_name="node_name", required=False, help_text=_("Machine (node name)")
    )

    class Meta:
        model = EndorsementKey
        fields = (
            "machine",
            "public_hash",
            "certificate_sha256",
            "key_type",
            "manufacturer",
            "model",
            "version",
            "tags",
        )


class EndorsementKeyBulkEditForm(NetBoxModelBulkEditForm):
    manufacturer = forms.CharField(max_length=100, required=False)

    model = EndorsementKey
    fieldsets = (FieldSet("manufacturer", name=_("TPM")),)
    nullable_fields = ("manufacturer",)


class EndorsementKeyFilterForm(NetBoxModelFilterSetForm):
    model = EndorsementKey
    fieldsets = (
        FieldSet("q", "filter_id", "tag"),
        FieldSet("status", "chain_status", "machine_id", name=_("Endorsement key")),
    )
    status = forms.MultipleChoiceField(choices=KeyStatusChoices, required=False)
    chain_status = forms.MultipleChoiceField(choices=ChainStatusChoices, required=False)
    machine_id = DynamicModelMultipleChoiceField(queryset=Machine.objects.all(), required=False, label=_("Machine"))
    tag = TagFilterField(model)
