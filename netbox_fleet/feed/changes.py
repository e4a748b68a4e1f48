"""Which machines the change log says have changed, and which records are gone."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.choices import ObjectChangeActionChoices
from core.models import ObjectChange
from dcim.models import Device, Interface, MACAddress, Rack, Site
from django.contrib.contenttypes.models import ContentType
from django.db.models import Max, Min, Model, Q, QuerySet
from django.utils import timezone
from extras.models import Tag
from ipam.models import IPAddress, Prefix
from tenancy.models import Tenant

from netbox_fleet.feed.cursor import RECHECK_SECONDS, Since
from netbox_fleet.models import Baseline, EndorsementKey, Machine, MachineClass, Statement

# Beyond this many log rows a full read is cheaper, and simpler to get right.
MOST_CHANGES = 50_000


@dataclass(frozen=True, slots=True)
class Changed:
    """Ids of machines to serve again, ascending, and of those that are gone."""

    machines: tuple[int, ...]
    gone: frozenset[int]


def position() -> Since:
    """Return where the change log stands now."""
    newest = ObjectChange.objects.aggregate(newest=Max("pk"))["newest"]
    return Since(newest or 0, int(timezone.now().timestamp()))


def readable(since: Since) -> bool:
    """Whether the change log still holds all after this position, and not too much of it."""
    ends = ObjectChange.objects.aggregate(oldest=Min("pk"), newest=Max("pk"))
    if ends["newest"] is None:
        return since.change == 0
    return (
        ends["oldest"] <= since.change + 1
        and since.change <= ends["newest"]
        and ends["newest"] - since.change <= MOST_CHANGES
    )


def changed(since: Since) -> Changed:
    """Map all changes after the position, and those shortly before it, to machines."""
    recheck = datetime.fromtimestamp(since.time, UTC) - timedelta(seconds=RECHECK_SECONDS)
    rows = (
        ObjectChange.objects.filter(Q(pk__gt=since.change) | Q(time__gte=recheck))
        .order_by()
        .values_list(
            "changed_object_type_id",
            "changed_object_id",
            "related_object_type_id",
            "related_object_id",
            "action",
        )
    )
    touched: dict[int, set[int]] = defaultdict(set)
    gone: set[int] = set()
    machine_type = _type(Machine)
    for kind, pk, related_kind, related, action in rows.iterator(chunk_size=5_000):
        touched[kind].add(pk)
        if related_kind is not None and related is not None:
            touched[related_kind].add(related)
        if kind == machine_type and action == ObjectChangeActionChoices.ACTION_DELETE:
            gone.add(pk)
    gone -= set(Machine.objects.filter(pk__in=gone).values_list("pk", flat=True))
    moved = _moved_from(since, recheck)
    for kind, ids in moved.items():
        touched[kind] |= ids
    return Changed(tuple(sorted(_machines(touched))), frozenset(gone))


def _moved_from(since: Since, recheck: datetime) -> dict[int, set[int]]:
    """Return the former and present parents of MAC and IP addresses, which their log rows hold as data alone."""
    interface_type = _type(Interface)
    rows = (
        ObjectChange.objects.filter(Q(pk__gt=since.change) | Q(time__gte=recheck))
        .filter(changed_object_type_id__in=(_type(MACAddress), _type(IPAddress)))
        .order_by()
        .values_list("prechange_data", "postchange_data")
    )
    parents: set[int] = set()
    for images in rows.iterator(chunk_size=1_000):
        for image in images:
            if image and image.get("assigned_object_type") == interface_type and image.get("assigned_object_id"):
                parents.add(int(image["assigned_object_id"]))
    return {interface_type: parents}


def _machines(touched: dict[int, set[int]]) -> set[int]:
    """Follow every touched object to the machines whose declaration shows it."""
    devices = set(touched[_type(Device)])
    devices |= _ids(Device.objects.filter(site__in=touched[_type(Site)]), touched[_type(Site)])
    devices |= _ids(Device.objects.filter(rack__in=touched[_type(Rack)]), touched[_type(Rack)])
    devices |= _ids(Device.objects.filter(tenant__in=touched[_type(Tenant)]), touched[_type(Tenant)])
    devices |= _ids(Device.objects.filter(tags__in=touched[_type(Tag)]), touched[_type(Tag)])
    interfaces = touched[_type(Interface)] | _interfaces_in(touched[_type(Prefix)])
    if interfaces:
        devices |= set(Interface.objects.filter(pk__in=interfaces).values_list("device_id", flat=True))
    found = touched[_type(Machine)] | set(Machine.objects.filter(device__in=devices).values_list("pk", flat=True))
    found |= _ids(Machine.objects.filter(tags__in=touched[_type(Tag)]), touched[_type(Tag)])
    found |= _ids(Machine.objects.filter(machine_class__in=touched[_type(MachineClass)]), touched[_type(MachineClass)])
    for model in (EndorsementKey, Baseline, Statement):
        ids = touched[_type(model)]
        if ids:
            rows = model.objects.filter(pk__in=ids, machine__isnull=False)
            found |= set(rows.values_list("machine_id", flat=True))
    found |= _former_owners(touched[_type(EndorsementKey)])
    return found


def _former_owners(keys: set[int]) -> set[int]:
    """Return the machines that these keys were bound to before: a moved key changes two declarations."""
    if not keys:
        return set()
    rows = ObjectChange.objects.filter(changed_object_type_id=_type(EndorsementKey), changed_object_id__in=keys)
    return {int(data["machine"]) for (data,) in rows.values_list("prechange_data") if data and data.get("machine")}


def _interfaces_in(prefixes: set[int]) -> set[int]:
    found: set[int] = set()
    for prefix, vrf in Prefix.objects.filter(pk__in=prefixes).values_list("prefix", "vrf_id"):
        rows = IPAddress.objects.filter(
            address__net_host_contained=str(prefix), vrf_id=vrf, assigned_object_type_id=_type(Interface)
        )
        found |= set(rows.values_list("assigned_object_id", flat=True))
    return found


def _ids(rows: QuerySet, unless_empty: set[int]) -> set[int]:
    return set(rows.values_list("pk", flat=True)) if unless_empty else set()


def _type(model: type[Model]) -> int:
    return int(ContentType.objects.get_for_model(model).pk)
