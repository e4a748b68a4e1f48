"""GraphQL types by model; their names carry a prefix, since a clash of names stops NetBox's whole schema.

A related record is null where the reader may not view it.
"""

from typing import TYPE_CHECKING, Annotated

import strawberry
from netbox.graphql.types import NetBoxObjectType, register_type

from netbox_fleet import models
from netbox_fleet.graphql import filters

if TYPE_CHECKING:
    from dcim.graphql.types import DeviceType

_HERE = strawberry.lazy("netbox_fleet.graphql.types")


@register_type(
    models.MachineClass,
    fields="__all__",
    filters=filters.MachineClassFilter,
    pagination=True,
    name="FleetMachineClassType",
)
class MachineClassType(NetBoxObjectType):
    machines: list[Annotated["MachineType", _HERE]]


@register_type(
    models.Machine,
    exclude=["report_seq"],
    filters=filters.MachineFilter,
    pagination=True,
    name="FleetMachineType",
)
class MachineType(NetBoxObjectType):
    device: Annotated["DeviceType", strawberry.lazy("dcim.graphql.types")] | None
    machine_class: Annotated["MachineClassType", _HERE] | None
    endorsement_keys: list[Annotated["EndorsementKeyType", _HERE]]
    candidate_keys: list[Annotated["EndorsementKeyType", _HERE]]
    runs: list[Annotated["RunType", _HERE]]
    attestations: list[Annotated["AttestationType", _HERE]]
    certificates: list[Annotated["DeviceCertificateType", _HERE]]
    statements: list[Annotated["StatementType", _HERE]]
    boot_checks: list[Annotated["BootCheckType", _HERE]]
    baselines: list[Annotated["BaselineType", _HERE]]


@register_type(
    models.EndorsementKey,
    fields="__all__",
    filters=filters.EndorsementKeyFilter,
    pagination=True,
    name="FleetEndorsementKeyType",
)
class EndorsementKeyType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None
    candidates: list[Annotated["MachineType", _HERE]]


@register_type(models.Run, fields="__all__", filters=filters.RunFilter, pagination=True, name="FleetRunType")
class RunType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None
    attestations: list[Annotated["AttestationType", _HERE]]


@register_type(
    models.Attestation,
    fields="__all__",
    filters=filters.AttestationFilter,
    pagination=True,
    name="FleetAttestationType",
)
class AttestationType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None
    run: Annotated["RunType", _HERE] | None


@register_type(
    models.DeviceCertificate,
    fields="__all__",
    filters=filters.DeviceCertificateFilter,
    pagination=True,
    name="FleetDeviceCertificateType",
)
class DeviceCertificateType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None


@register_type(
    models.Statement,
    fields="__all__",
    filters=filters.StatementFilter,
    pagination=True,
    name="FleetStatementType",
)
class StatementType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None


@register_type(
    models.BootCheck,
    fields="__all__",
    filters=filters.BootCheckFilter,
    pagination=True,
    name="FleetBootCheckType",
)
class BootCheckType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None


@register_type(
    models.Baseline,
    fields="__all__",
    filters=filters.BaselineFilter,
    pagination=True,
    name="FleetBaselineType",
)
class BaselineType(NetBoxObjectType):
    machine: Annotated["MachineType", _HERE] | None
