"""Serializers by model; NetBox finds them here by name."""

from netbox_fleet.api.serializers.attestation import AttestationSerializer
from netbox_fleet.api.serializers.baseline import BaselineSerializer
from netbox_fleet.api.serializers.bootcheck import BootCheckSerializer
from netbox_fleet.api.serializers.devicecertificate import DeviceCertificateSerializer
from netbox_fleet.api.serializers.endorsementkey import EndorsementKeySerializer
from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.api.serializers.machineclass import MachineClassSerializer
from netbox_fleet.api.serializers.run import RunSerializer
from netbox_fleet.api.serializers.statement import StatementSerializer

__all__ = (
    "AttestationSerializer",
    "BaselineSerializer",
    "BootCheckSerializer",
    "DeviceCertificateSerializer",
    "EndorsementKeySerializer",
    "MachineClassSerializer",
    "MachineSerializer",
    "RunSerializer",
    "StatementSerializer",
)
