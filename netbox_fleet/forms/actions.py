"""Forms of the actions: what must be typed or said before something is asked of a machine."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from netbox_fleet.actions import statements
from netbox_fleet.actions.intents import Request
from netbox_fleet.actions.reasons import REASON_LENGTH
from netbox_fleet.choices import ERASING_KINDS, IntentKindChoices
from netbox_fleet.models import Machine
from netbox_fleet.plain_text import clean_text


class ReasonField(forms.CharField):
    """Words as they are kept, so that what REST takes is taken here too."""

    def to_python(self, value):
        return super().to_python(clean_text(value) if isinstance(value, str) else value)


class ReasonForm(forms.Form):
    """A reason, kept with the decision."""

    reason = ReasonField(
        label=_("Reason"),
        max_length=REASON_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"class": "form-control", "rows": 2}),
    )


class AskForm(ReasonForm):
    """What a person types to ask something of one machine."""

    confirm_serial = forms.CharField(
        label=_("Type the disk serial to confirm"),
        max_length=100,
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off", "spellcheck": "false"}),
    )
    force_budget = forms.BooleanField(
        label=_("Go past the availability budget"),
        required=False,
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
        help_text=_("Kept with your name."),
    )
    reboot = forms.BooleanField(
        label=_("Reboot into HookOS for it"),
        required=False,
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
        help_text=_("Otherwise an active machine is asked at its next check, without a reboot."),
    )
    field_order = ("confirm_serial", "reboot", "reason", "force_budget")

    def __init__(self, kind, *args, may_force=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.kind = kind
        if kind not in ERASING_KINDS:
            del self.fields["confirm_serial"]
        if kind != IntentKindChoices.ATTEST:
            del self.fields["reboot"]
        if not may_force:
            del self.fields["force_budget"]

    def asked(self):
        """Return what was asked, once the form is valid."""
        return Request(kind=self.kind, **self.cleaned_data)


class CancelForm(ReasonForm):
    """Why the current intent should end."""


class ReasonedForm(ReasonForm):
    """An action that nobody takes without saying why."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = True


class VouchForm(ReasonedForm):
    """What a person vouches for in a retirement."""

    power_off = forms.BooleanField(
        label=_("The machine is off: I looked"),
        required=False,
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
        help_text=_("Only of a machine without a BMC: another one says so itself."),
    )
    disk = forms.CharField(
        label=_("Or the serial of a disk that may leave as it is"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off", "spellcheck": "false"}),
        help_text=_("One that nobody declared, as the message names it. Its data leaves with it."),
    )
    field_order = ("power_off", "disk", "reason")

    def words(self):
        """Return what was said, once the form is valid. Raises RefusalError."""
        return statements.vouched(**self.cleaned_data)


class KeyDecisionForm(ReasonForm):
    """A word on an endorsement key, with the machine it belongs to where none is known yet."""

    machine = forms.ModelChoiceField(
        label=_("Machine"),
        queryset=Machine.objects.none(),
        required=False,
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    field_order = ("machine", "reason")

    def __init__(self, key, machines, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if machines is None or key.machine_id is not None:
            del self.fields["machine"]
        else:
            field: Any = self.fields["machine"]
            field.queryset = machines
            field.required = True
            candidates = list(key.candidates.values_list("pk", flat=True)[:2])
            if len(candidates) == 1:
                self.fields["machine"].initial = candidates[0]


class BaselineDecisionForm(ReasonForm):
    """A word on an offered baseline."""
