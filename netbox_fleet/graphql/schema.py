"""What can be asked: one field and one list of each model."""

import strawberry
import strawberry_django

from netbox_fleet.graphql import types


@strawberry.type(name="Query")
class FleetQuery:
    machine_class: types.MachineClassType = strawberry_django.field()
    machine_class_list: list[types.MachineClassType] = strawberry_django.field()

    machine: types.MachineType = strawberry_django.field()
    machine_list: list[types.MachineType] = strawberry_django.field()

    endorsement_key: types.EndorsementKeyType = strawberry_django.field()
    endorsement_key_list: list[types.EndorsementKeyType] = strawberry_django.field()

    run: types.RunType = strawberry_django.field()
    run_list: list[types.RunType] = strawberry_django.field()

    attestation: types.AttestationType = strawberry_django.field()
    attestation_list: list[types.AttestationType] = strawberry_django.field()

    device_certificate: types.DeviceCertificateType = strawberry_django.field()
    device_certificate_list: list[types.DeviceCertificateType] = strawberry_django.field()

    statement: types.StatementType = strawberry_django.field()
    statement_list: list[types.StatementType] = strawberry_django.field()

    boot_check: types.BootCheckType = strawberry_django.field()
    boot_check_list: list[types.BootCheckType] = strawberry_django.field()

    baseline: types.BaselineType = strawberry_django.field()
    baseline_list: list[types.BaselineType] = strawberry_django.field()
