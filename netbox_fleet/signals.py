"""What must happen when core records change: retirement by the Device's status, and records that may not vanish."""

from typing import Any

from dcim.choices import DeviceStatusChoices
from dcim.models import Device
from django.db import transaction
from django.db.models.signals import post_save, pre_delete, pre_save
from django.dispatch import receiver
from netbox.context import current_request
from utilities.exceptions import AbortRequest

from netbox_fleet.actions import intents, retire
from netbox_fleet.choices import StatementStateChoices
from netbox_fleet.models import Baseline, EndorsementKey, Machine, Statement
from netbox_fleet.models.guarded import GuardedModel

_GONE = DeviceStatusChoices.STATUS_DECOMMISSIONING


@receiver(pre_save, sender=Device)
def remember_status(instance: Device, **_: Any) -> None:
    """Keep the stored status, so that the change can be told after the save."""
    instance._fleet_status = (  # noqa: SLF001 - our own note on a core object
        Device.objects.filter(pk=instance.pk).values_list("status", flat=True).first() if instance.pk else None
    )


@receiver(post_save, sender=Device)
def follow_status(instance: Device, created: bool, **_: Any) -> None:
    """Begin or take back a retirement when the Device enters or leaves decommissioning."""
    before = getattr(instance, "_fleet_status", None)
    if created or before == instance.status or _GONE not in (before, instance.status):
        return
    with transaction.atomic():
        pk = Machine.objects.filter(device_id=instance.pk).values_list("pk", flat=True).first()
        if pk is None:
            return
        machine = intents.locked(pk)
        step = retire.begin if instance.status == _GONE else retire.take_back
        step(machine, current_request.get())
        machine.save_intent()


@receiver(pre_save, sender=Machine)
@receiver(pre_save, sender=EndorsementKey)
@receiver(pre_save, sender=Baseline)
def bring_nothing_along(instance: GuardedModel, raw: bool = False, **_: Any) -> None:
    """Let a row that is written past its model (a merged branch, a fixture) set no intent and no decision."""
    if not raw:
        return
    stored = type(instance).objects.filter(pk=instance.pk).values(*instance.guarded).first() or {}
    for name in instance.guarded:
        field: Any = type(instance)._meta.get_field(name)  # noqa: SLF001 - Django's documented interface
        setattr(instance, name, stored.get(name, field.get_default()))


@receiver(pre_save, sender=Statement)
def hear_nothing_twice(instance: Statement, raw: bool = False, **_: Any) -> None:
    """Let no statement reach the service that was not said here and now."""
    if raw and instance.state == StatementStateChoices.GIVEN:
        instance.state = StatementStateChoices.REFUSED
        instance.answer = "It came with a merge or an import: say it again where it is meant."


@receiver(pre_delete, sender=Machine)
def keep_living_machines(instance: Machine, **_: Any) -> None:
    """Refuse to delete a machine of which something exists outside NetBox."""
    stored = Machine.objects.filter(pk=instance.pk).first()
    if stored is not None and not stored.deletable:
        what = f"{stored.get_desired_action_display()} is under way" if stored.busy else stored.get_phase_display()
        raise AbortRequest(
            f"Machine {stored} cannot be deleted ({what}): only a declared, wiped or retired machine of which nothing "
            "is asked may go. Wipe or retire it first."
        )
