"""GraphQL filters by model."""

from typing import TYPE_CHECKING, Annotated

import strawberry
import strawberry_django
from netbox.graphql.filters import NetBoxModelFilter, register_filter
from strawberry.scalars import ID
from strawberry_django import DatetimeFilterLookup, FilterLookup, StrFilterLookup

from netbox_fleet import models

if TYPE_CHECKING:
    from dcim.graphql.filters import DeviceFilter

_TEXT = StrFilterLookup | None
_TIME = DatetimeFilterLookup | None
_BOOL = FilterLookup[bool] | None
_MACHINE = Annotated["MachineFilter", strawberry.lazy("netbox_fleet.graphql.filters")] | None
_CLASS = Annotated["MachineClassFilter", strawberry.lazy("netbox_fleet.graphql.filters")] | None
_RUN = Annotated["RunFilter", strawberry.lazy("netbox_fleet.graphql.filters")] | None


@register_filter(models.MachineClass, lookups=True, name="FleetMachineClassFilter")
class MachineClassFilter(NetBoxModelFilter):
    slug: _TEXT = strawberry_django.filter_field()
    family: _TEXT = strawberry_django.filter_field()
    installable: _BOOL = strawberry_django.filter_field()
    two_person: _BOOL = strawberry_django.filter_field()
    role: _TEXT = strawberry_django.filter_field()


@register_filter(models.Machine, lookups=True, name="FleetMachineFilter")
class MachineFilter(NetBoxModelFilter):
    device: Annotated["DeviceFilter", strawberry.lazy("dcim.graphql.filters")] | None = strawberry_django.filter_field()
    device_id: ID | None = strawberry_django.filter_field()
    node_name: _TEXT = strawberry_django.filter_field()
    machine_class: _CLASS = strawberry_django.filter_field()
    disk_serial: _TEXT = strawberry_django.filter_field()
    desired_action: _TEXT = strawberry_django.filter_field()
    intent_state: _TEXT = strawberry_django.filter_field()
    phase: _TEXT = strawberry_django.filter_field()
    check_result: _TEXT = strawberry_django.filter_field()
    last_check: _TIME = strawberry_django.filter_field()
    last_seen: _TIME = strawberry_django.filter_field()


@register_filter(models.EndorsementKey, lookups=True, name="FleetEndorsementKeyFilter")
class EndorsementKeyFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    public_hash: _TEXT = strawberry_django.filter_field()
    certificate_sha256: _TEXT = strawberry_django.filter_field()
    status: _TEXT = strawberry_django.filter_field()
    chain_status: _TEXT = strawberry_django.filter_field()
    manufacturer: _TEXT = strawberry_django.filter_field()


@register_filter(models.Run, lookups=True, name="FleetRunFilter")
class RunFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    machine_name: _TEXT = strawberry_django.filter_field()
    kind: _TEXT = strawberry_django.filter_field()
    state: _TEXT = strawberry_django.filter_field()
    requester: _TEXT = strawberry_django.filter_field()
    started: _TIME = strawberry_django.filter_field()
    ended: _TIME = strawberry_django.filter_field()


@register_filter(models.Attestation, lookups=True, name="FleetAttestationFilter")
class AttestationFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    run: _RUN = strawberry_django.filter_field()
    machine_name: _TEXT = strawberry_django.filter_field()
    kind: _TEXT = strawberry_django.filter_field()
    passed: _BOOL = strawberry_django.filter_field()
    policy: _TEXT = strawberry_django.filter_field()
    time: _TIME = strawberry_django.filter_field()


@register_filter(models.DeviceCertificate, lookups=True, name="FleetDeviceCertificateFilter")
class DeviceCertificateFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    machine_name: _TEXT = strawberry_django.filter_field()
    kind: _TEXT = strawberry_django.filter_field()
    serial: _TEXT = strawberry_django.filter_field()
    fingerprint: _TEXT = strawberry_django.filter_field()
    not_after: _TIME = strawberry_django.filter_field()
    revoked_at: _TIME = strawberry_django.filter_field()


@register_filter(models.Statement, lookups=True, name="FleetStatementFilter")
class StatementFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    machine_name: _TEXT = strawberry_django.filter_field()
    kind: _TEXT = strawberry_django.filter_field()
    state: _TEXT = strawberry_django.filter_field()
    by: _TEXT = strawberry_django.filter_field()
    time: _TIME = strawberry_django.filter_field()


@register_filter(models.BootCheck, lookups=True, name="FleetBootCheckFilter")
class BootCheckFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    result: _TEXT = strawberry_django.filter_field()
    time: _TIME = strawberry_django.filter_field()


@register_filter(models.Baseline, lookups=True, name="FleetBaselineFilter")
class BaselineFilter(NetBoxModelFilter):
    machine: _MACHINE = strawberry_django.filter_field()
    digest: _TEXT = strawberry_django.filter_field()
    state: _TEXT = strawberry_django.filter_field()
    decision: _TEXT = strawberry_django.filter_field()
    time: _TIME = strawberry_django.filter_field()
