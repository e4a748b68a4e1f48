"""The classes that the service has loaded."""

from typing import Any

from django.utils import timezone

from netbox_fleet.models import Machine, MachineClass

_FIELDS = ("family", "installable", "reason", "two_person", "role", "digest", "warning")


def replace(reported: list[dict[str, Any]]) -> list[str]:
    """Take over the reported classes; return slugs that machines still name though the service no longer has them.

    A class that is no longer reported stays, since machines may name it, but cannot be installed.
    """
    now = timezone.now()
    known = {found.slug: found for found in MachineClass.objects.all()}
    for row in reported:
        found = known.pop(row["slug"], None)
        if found is None:
            MachineClass.objects.create(seen_at=now, **row)
        else:
            _update(found, {name: row.get(name, getattr(found, name)) for name in _FIELDS})
            MachineClass.objects.filter(pk=found.pk).update(seen_at=now)
    for gone in known.values():
        _update(gone, {"installable": False, "reason": "The service no longer has this class."})
    named = Machine.objects.filter(machine_class__in=known.values()).values_list("machine_class__slug", flat=True)
    return sorted(set(named))


def _update(found: MachineClass, values: dict[str, Any]) -> None:
    changed = {name: value for name, value in values.items() if getattr(found, name) != value}
    if not changed:
        return
    found.snapshot()
    for name, value in changed.items():
        setattr(found, name, value)
    found.save()
