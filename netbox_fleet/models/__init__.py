from netbox_fleet.models.appliednode import AppliedNode
from netbox_fleet.models.attestation import Attestation
from netbox_fleet.models.baseline import Baseline
from netbox_fleet.models.bootcheck import BootCheck
from netbox_fleet.models.devicecertificate import DeviceCertificate
from netbox_fleet.models.endorsementkey import EndorsementKey
from netbox_fleet.models.machine import Machine
from netbox_fleet.models.machineclass import MachineClass
from netbox_fleet.models.run import Run
from netbox_fleet.models.statement import Statement

__all__ = (
    "AppliedNode",
    "Attestation",
    "Baseline",
    "BootCheck",
    "DeviceCertificate",
    "EndorsementKey",
    "Machine",
    "MachineClass",
    "Run",
    "Statement",
)
