from netbox_fleet.forms.actions import (
    AskForm,
    BaselineDecisionForm,
    CancelForm,
    KeyDecisionForm,
    ReasonedForm,
    VouchForm,
)
from netbox_fleet.forms.endorsementkey import (
    EndorsementKeyBulkEditForm,
    EndorsementKeyFilterForm,
    EndorsementKeyForm,
    EndorsementKeyImportForm,
)
from netbox_fleet.forms.machine import MachineBulkEditForm, MachineFilterForm, MachineForm, MachineImportForm
from netbox_fleet.forms.readonly import (
    AttestationFilterForm,
    BaselineFilterForm,
    BootCheckFilterForm,
    DeviceCertificateFilterForm,
    MachineClassFilterForm,
    RunFilterForm,
    StatementFilterForm,
)

__all__ = (
    "AskForm",
    "AttestationFilterForm",
    "BaselineDecisionForm",
    "BaselineFilterForm",
    "BootCheckFilterForm",
    "CancelForm",
    "DeviceCertificateFilterForm",
    "EndorsementKeyBulkEditForm",
    "EndorsementKeyFilterForm",
    "EndorsementKeyForm",
    "EndorsementKeyImportForm",
    "KeyDecisionForm",
    "MachineBulkEditForm",
    "MachineClassFilterForm",
    "MachineFilterForm",
    "MachineForm",
    "MachineImportForm",
    "ReasonedForm",
    "RunFilterForm",
    "StatementFilterForm",
    "VouchForm",
)
