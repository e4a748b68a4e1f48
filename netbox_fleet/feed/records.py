"""One declaration per machine, built for a page at a time with a fixed number of queries."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from dcim.models import Interface, MACAddress
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from extras.models import TaggedItem
from ipam.models import IPAddress, Prefix
from netbox.plugins import get_plugin_config

from netbox_fleet.choices import FINAL_RUN_STATES, KeyStatusChoices, StatementStateChoices
from netbox_fleet.models import Baseline, EndorsementKey, Machine, Run, Statement


def records(machines: QuerySet[Machine]) -> list[dict[str, Any]]:
    """Return the declarations of these machines, in their order."""
    found = list(
        machines.select_related(
            "machine_class",
            "device__site",
            "device__rack",
            "device__role",
            "device__tenant",
            "device__primary_ip4",
            "device__primary_ip6",
        )
    )
    parts = _Parts(found)
    return [_record(machine, parts) for machine in found]


def tombstone(pk: int) -> dict[str, Any]:
    """Return the record of a machine that is gone."""
    return {"machine_id": pk, "tombstone": True}


class _Parts:
    """What belongs to the machines of one page, read once each."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.interfaces = _interfaces(machines)
        interface_ids = [interface.pk for rows in self.interfaces.values() for interface in rows]
        self.macs = _macs(interface_ids)
        self.addresses = _addresses(interface_ids)
        self.gateways = _gateways([address for rows in self.addresses.values() for address in rows])
        self.keys = _keys(machines)
        self.tags = _tags(machines)
        self.decisions = _decisions(machines)
        self.statements = _statements(machines)
        self.spent = _spent(machines)


def _record(machine: Machine, parts: _Parts) -> dict[str, Any]:
    interfaces = parts.interfaces.get(machine.device_id, [])
    return {
        "machine_id": machine.pk,
        "tombstone": False,
        "device": _device(machine),
        "machine": _machine(machine),
        "intent": None if machine.intent_id is None or machine.intent_id in parts.spent else _intent(machine),
        "eks": [_key(key) for key in parts.keys.get(machine.pk, [])],
        "interfaces": [
            {
                "name": interface.name,
                "mac_addresses": parts.macs.get(interface.pk, []),
                "mgmt_only": interface.mgmt_only,
                "enabled": interface.enabled,
            }
            for interface in interfaces
        ],
        "addresses": [
            {
                "address": str(address.address),
                "interface": interface.name,
                "dns_name": address.dns_name,
                "gateway": parts.gateways.get(address.pk, ""),
            }
            for interface in interfaces
            for address in parts.addresses.get(interface.pk, [])
        ],
        "tags": sorted(parts.tags.get(machine.pk, ())),
        "statements": [_statement(statement) for statement in parts.statements.get(machine.pk, [])],
        "baseline_decision": parts.decisions.get(machine.pk),
    }


def _device(machine: Machine) -> dict[str, Any]:
    device = machine.device
    return {
        "id": device.pk,
        "name": device.name or "",
        "status": device.status,
        "serial": device.serial,
        "asset_tag": device.asset_tag,
        "site": device.site.slug,
        "rack": device.rack.name if device.rack else None,
        "role": device.role.slug,
        "tenant": device.tenant.slug if device.tenant else None,
        "primary_ip4": str(device.primary_ip4.address) if device.primary_ip4 else None,
        "primary_ip6": str(device.primary_ip6.address) if device.primary_ip6 else None,
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "node_name": machine.node_name,
        "machine_class": machine.machine_class.slug if machine.machine_class else "",
        "disk_serial": machine.disk_serial,
        "disk_wwn": machine.disk_wwn,
        "extra_disks": [
            {"serial": serial, "wwn": wwn} for serial, _, wwn in (disk.partition("@") for disk in machine.extra_disks)
        ],
        "bmc_address": machine.bmc_address,
        "bmc_secret": machine.bmc_secret,
        "firmware": machine.firmware,
        "phase": machine.phase,
    }


def _intent(machine: Machine) -> dict[str, Any]:
    return {
        "id": str(machine.intent_id),
        "kind": machine.desired_action,
        "state": machine.intent_state,
        "requested_by": machine.intent_requested_by,
        "requested_at": _time(machine.intent_requested_at),
        "confirmed_serial": machine.confirmed_serial,
        "reason": machine.intent_reason,
        "approved_by": machine.approved_by,
        "approved_at": _time(machine.approved_at),
        "cancel_requested_by": machine.cancel_requested_by,
        "cancel_requested_at": _time(machine.cancel_requested_at),
        "force_budget": machine.force_budget,
        "reboot": machine.reboot,
        "two_person": machine.intent_two_person,
    }


def _key(key: EndorsementKey) -> dict[str, Any]:
    approved = key.status == KeyStatusChoices.APPROVED
    return {
        "id": key.pk,
        "public_hash": key.public_hash,
        "certificate_sha256": key.certificate_sha256,
        "status": key.status,
        "approved_by": key.decided_by if approved else "",
        "approved_at": _time(key.decided_at) if approved else None,
    }


def _statement(statement: Statement) -> dict[str, Any]:
    return {
        "id": str(statement.statement_id),
        "kind": statement.kind,
        "subject": statement.subject,
        "intent": str(statement.intent_id) if statement.intent_id else None,
        "by": statement.by,
        "reason": statement.reason,
        "at": _time(statement.time),
    }


def _interfaces(machines: Sequence[Machine]) -> dict[int, list[Interface]]:
    rows = Interface.objects.filter(device_id__in=[machine.device_id for machine in machines])
    return _grouped(rows.only("name", "device_id", "mgmt_only", "enabled"), "device_id")


def _macs(interfaces: Sequence[int]) -> dict[int, list[str]]:
    rows = MACAddress.objects.filter(
        assigned_object_type=ContentType.objects.get_for_model(Interface), assigned_object_id__in=interfaces
    ).order_by("pk")
    found: dict[int, list[str]] = defaultdict(list)
    for interface, mac in rows.values_list("assigned_object_id", "mac_address"):
        found[interface].append(str(mac).lower().replace("-", ":"))
    return found


def _addresses(interfaces: Sequence[int]) -> dict[int, list[IPAddress]]:
    rows = IPAddress.objects.filter(
        assigned_object_type=ContentType.objects.get_for_model(Interface), assigned_object_id__in=interfaces
    ).order_by("pk")
    return _grouped(rows.only("address", "dns_name", "vrf_id", "assigned_object_id"), "assigned_object_id")


def _gateways(addresses: Sequence[IPAddress]) -> dict[int, str]:
    """Read each address's gateway from the custom field of the narrowest prefix around it that has one."""
    field = get_plugin_config("netbox_fleet", "gateway_custom_field")
    if not field or not addresses:
        return {}
    rows = Prefix.objects.filter(custom_field_data__has_key=field).values_list("prefix", "vrf_id", "custom_field_data")
    prefixes: dict[int | None, list[tuple[Any, str]]] = defaultdict(list)
    for prefix, vrf, data in rows:
        gateway = _gateway(data.get(field))
        if gateway:
            prefixes[vrf].append((ipaddress.ip_network(str(prefix)), gateway))
    found = {}
    for address in addresses:
        host = ipaddress.ip_interface(str(address.address)).ip
        around = [(net, gateway) for net, gateway in prefixes.get(address.vrf_id, []) if host in net]
        if around:
            found[address.pk] = max(around, key=lambda pair: pair[0].prefixlen)[1]
    return found


def _gateway(value: Any) -> str:
    try:
        return str(ipaddress.ip_interface(str(value)).ip) if value else ""
    except ValueError:
        return ""


def _keys(machines: Sequence[Machine]) -> dict[int, list[EndorsementKey]]:
    rows = EndorsementKey.objects.filter(machine__in=machines)
    return _grouped(rows.order_by("pk"), "machine_id")


def _tags(machines: Sequence[Machine]) -> dict[int, set[str]]:
    """Return the tags of each machine and of its device."""
    by_device = {machine.device_id: machine.pk for machine in machines}
    found: dict[int, set[str]] = defaultdict(set)
    for model, owners in ((Machine, {machine.pk: machine.pk for machine in machines}), (None, by_device)):
        kind = ContentType.objects.get_for_model(model or machines[0].device) if machines else None
        rows = TaggedItem.objects.filter(content_type=kind, object_id__in=owners)
        for owner, slug in rows.values_list("object_id", "tag__slug"):
            found[owners[owner]].add(slug)
    return found


def _decisions(machines: Sequence[Machine]) -> dict[int, dict[str, Any]]:
    rows = Baseline.objects.filter(machine__in=machines, decided_at__isnull=False).order_by("machine_id", "-decided_at")
    return {
        baseline.machine_id: {
            "id": baseline.pk,
            "decision": baseline.decision,
            "by": baseline.decided_by,
            "at": _time(baseline.decided_at),
            "digest": baseline.digest,
        }
        for baseline in rows.distinct("machine_id")
    }


def _statements(machines: Sequence[Machine]) -> dict[int, list[Statement]]:
    """Return what people said and the service has not answered yet, oldest first."""
    rows = Statement.objects.filter(machine__in=machines, state=StatementStateChoices.GIVEN)
    return _grouped(rows.order_by("time", "pk"), "machine_id")


def _spent(machines: Sequence[Machine]) -> set[Any]:
    ids = [machine.intent_id for machine in machines if machine.intent_id is not None]
    return set(Run.objects.filter(run_id__in=ids, state__in=FINAL_RUN_STATES).values_list("run_id", flat=True))


def _grouped[T](rows: Iterable[T], attribute: str) -> dict[int, list[T]]:
    found: dict[int, list[T]] = defaultdict(list)
    for row in rows:
        found[getattr(row, attribute)].append(row)
    return found


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
