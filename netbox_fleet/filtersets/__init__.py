from netbox_fleet.filtersets.attestation import AttestationFilterSet
from netbox_fleet.filtersets.baseline import BaselineFilterSet
from netbox_fleet.filtersets.bootcheck import BootCheckFilterSet
from netbox_fleet.filtersets.devicecertificate import DeviceCertificateFilterSet
from netbox_fleet.filtersets.endorsementkey import EndorsementKeyFilterSet
from netbox_fleet.filtersets.machine import MachineFilterSet
from netbox_fleet.filtersets.machineclass import MachineClassFilterSet
from netbox_fleet.filtersets.run import RunFilterSet
from netbox_fleet.filtersets.statement import StatementFilterSet

__all__ = (
    "AttestationFilterSet",
    "BaselineFilterSet",
    "BootCheckFilterSet",
    "DeviceCertificateFilterSet",
    "EndorsementKeyFilterSet",
    "MachineClassFilterSet",
    "MachineFilterSet",
    "RunFilterSet",
    "StatementFilterSet",
)
