"""Filter forms of the records that people only read."""

from django import forms
from django.utils.translation import gettext_lazy as _
from netbox.forms import NetBoxModelFilterSetForm
from utilities.forms import BOOLEAN_WITH_BLANK_CHOICES
from utilities.forms.fields import DynamicModelMultipleChoiceField, TagFilterField
from utilities.forms.rendering import FieldSet

from netbox_fleet import choices
from netbox_fleet.models import (
    Attestation,
    Baseline,
    BootCheck,
    DeviceCertificate,
    Machine,
    MachineClass,
    Run,
    Statement,
)


def _machines():
    return DynamicModelMultipleChoiceField(queryset=Machine.objects.all(), required=False, label=_("Machine"))


def _yes_or_no(label):
    widget = forms.Select(choices=BOOLEAN_WITH_BLANK_CHOICES)
    return forms.NullBooleanField(required=False, label=label, widget=widget)


class MachineClassFilterForm(NetBoxModelFilterSetForm):
    model = MachineClass
    fieldsets = (FieldSet("q", "filter_id", "tag"), FieldSet("installable", "two_person", name=_("Class")))
    installable = _yes_or_no(_("Installable"))
    two_person = _yes_or_no(_("Two persons"))
    tag = TagFilterField(model)


class RunFilterForm(NetBoxModelFilterSetForm):
    model = Run
    fieldsets = (FieldSet("q", "filter_id", "tag"), FieldSet("machine_id", "kind", "state", name=_("Run")))
    machine_id = _machines()
    kind = forms.MultipleChoiceField(choices=choices.IntentKindChoices, required=False)
    state = forms.MultipleChoiceField(choices=choices.RunStateChoices, required=False)
    tag = TagFilterField(model)


class AttestationFilterForm(NetBoxModelFilterSetForm):
    model = Attestation
    fieldsets = (
        FieldSet("q", "filter_id", "tag"),
        FieldSet("machine_id", "kind", "passed", "secure_boot", name=_("Attestation")),
    )
    machine_id = _machines()
    kind = forms.MultipleChoiceField(choices=choices.AttestationKindChoices, required=False)
    passed = _yes_or_no(_("Passed"))
    secure_boot = _yes_or_no(_("Secure Boot"))
    tag = TagFilterField(model)


class DeviceCertificateFilterForm(NetBoxModelFilterSetForm):
    model = DeviceCertificate
    fieldsets = (
        FieldSet("q", "filter_id", "tag"),
        FieldSet("machine_id", "kind", "revoked", name=_("Certificate")),
    )
    machine_id = _machines()
    kind = forms.MultipleChoiceField(choices=choices.CertificateKindChoices, required=False)
    revoked = _yes_or_no(_("Revoked"))
    tag = TagFilterField(model)


class BootCheckFilterForm(NetBoxModelFilterSetForm):
    model = BootCheck
    fieldsets = (FieldSet("q", "filter_id", "tag"), FieldSet("machine_id", "result", name=_("Boot check")))
    machine_id = _machines()
    result = forms.MultipleChoiceField(choices=choices.CheckChoices, required=False)
    tag = TagFilterField(model)


class BaselineFilterForm(NetBoxModelFilterSetForm):
    model = Baseline
    fieldsets = (FieldSet("q", "filter_id", "tag"), FieldSet("machine_id", "state", "decision", name=_("Baseline")))
    machine_id = _machines()
    state = forms.MultipleChoiceField(choices=choices.BaselineStateChoices, required=False)
    decision = forms.MultipleChoiceField(choices=choices.BaselineDecisionChoices, required=False)
    tag = TagFilterField(model)


class StatementFilterForm(NetBoxModelFilterSetForm):
    model = Statement
    fieldsets = (FieldSet("q", "filter_id", "tag"), FieldSet("machine_id", "kind", "state", name=_("Statement")))
    machine_id = _machines()
    kind = forms.MultipleChoiceField(choices=choices.StatementKindChoices, required=False)
    state = forms.MultipleChoiceField(choices=choices.StatementStateChoices, required=False)
    tag = TagFilterField(model)
