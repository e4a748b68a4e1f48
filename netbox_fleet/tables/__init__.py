from netbox_fleet.tables.attestation import AttestationTable
from netbox_fleet.tables.baseline import BaselineTable
from netbox_fleet.tables.bootcheck import BootCheckTable
from netbox_fleet.tables.devicecertificate import DeviceCertificateTable
from netbox_fleet.tables.endorsementkey import EndorsementKeyTable
from netbox_fleet.tables.machine import MachineTable
from netbox_fleet.tables.machineclass import MachineClassTable
from netbox_fleet.tables.run import RunTable
from netbox_fleet.tables.statement import StatementTable

__all__ = (
    "AttestationTable",
    "BaselineTable",
    "BootCheckTable",
    "DeviceCertificateTable",
    "EndorsementKeyTable",
    "MachineClassTable",
    "MachineTable",
    "RunTable",
    "StatementTable",
)
