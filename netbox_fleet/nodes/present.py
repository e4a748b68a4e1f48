"""NetBox as it is, in the fields of the nodes file; a fixed number of queries for any number of nodes."""

import ipaddress
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dcim.models import Device, Interface, MACAddress
from django.contrib.contenttypes.models import ContentType
from ipam.models import IPAddress

from netbox_fleet.models import AppliedNode, Machine
from netbox_fleet.nodes.references import SPELLINGS
from netbox_fleet.nodes.wire import Node, Problem

_DEVICE = ("site", "rack", "role", "device_type__manufacturer", "primary_ip4", "primary_ip6")


@dataclass(slots=True)
class Standing:
    """One node as NetBox has it; a device of None is to be made."""

    node: Node
    device: Device | None = None
    machine: Machine | None = None
    applied: dict[str, Any] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    macs: dict[int, list[MACAddress]] = field(default_factory=dict)
    """By interface."""
    addresses: dict[int, list[IPAddress]] = field(default_factory=dict)
    """By interface."""

    def fields(self) -> dict[str, Any]:
        """Return the fields in the spelling of the file; what is empty is left out."""
        found = _device_fields(self.device) if self.device else {}
        found |= _machine_fields(self.machine) if self.machine else {}
        for name, interface in self.interfaces.items():
            mac = interface.primary_mac_address or next(iter(self.macs.get(interface.pk, ())), None)
            found[f"interfaces.{name}.mac"] = str(mac.mac_address).lower().replace("-", ":") if mac else None
            held = sorted(str(address.address) for address in self.addresses.get(interface.pk, ()))
            found[f"interfaces.{name}.addresses"] = held
            found[f"interfaces.{name}.type"] = interface.type
            found[f"interfaces.{name}.mgmt_only"] = interface.mgmt_only
        return {key: value for key, value in found.items() if value not in (None, "", [], False)}


def standings(nodes: Sequence[Node], user: Any) -> tuple[list[Standing], list[Problem]]:
    """Find the devices and machines of the nodes: by node name, else by the name of a device without a machine."""
    found, problems = _identified(nodes, user)
    _read_parts(found)
    return found, [*problems, *_taken(found)]


def _identified(nodes: Sequence[Node], user: Any) -> tuple[list[Standing], list[Problem]]:
    names = [node.name for node in nodes]
    visible = Machine.objects.restrict(user, "view").filter(node_name__in=names)
    related = [f"device__{name}" for name in _DEVICE]
    machines = {machine.node_name: machine for machine in visible.select_related("machine_class", *related)}
    ids = [machine.pk for machine in machines.values()]
    applied = dict(AppliedNode.objects.filter(machine__in=ids).values_list("machine_id", "fields"))
    devices: dict[str, list[Device]] = defaultdict(list)
    others = [name for name in names if name not in machines]
    for device in Device.objects.restrict(user, "view").filter(name__in=others).select_related(*_DEVICE):
        devices[device.name].append(device)
    owners = dict(
        Machine.objects.filter(device__name__in=others).values_list("device_id", "node_name") if others else ()
    )
    found, problems = [], []
    for node in nodes:
        standing = Standing(node)
        machine = machines.get(node.name)
        if machine is not None:
            standing.machine, standing.device = machine, machine.device
            standing.applied = applied.get(machine.pk, {})
        elif rivals := devices.get(node.name):
            free = [device for device in rivals if device.pk not in owners]
            if len(free) == 1:
                standing.device = free[0]
            else:
                said = f"{len(rivals)} devices have this name" if free else f"The device is node {owners[rivals[0].pk]}"
                problems.append(Problem(node.name, "name", f"{said}: make its machine in NetBox first."))
        found.append(standing)
    return found, problems


def _read_parts(found: list[Standing]) -> None:
    by_device = {standing.device.pk: standing for standing in found if standing.device is not None}
    owner_of: dict[int, Standing] = {}
    rows = Interface.objects.filter(device_id__in=by_device).select_related("primary_mac_address")
    for interface in rows:
        owner = by_device[interface.device_id]
        owner.interfaces[interface.name] = interface
        owner_of[interface.pk] = owner
    kind = ContentType.objects.get_for_model(Interface)
    for mac in MACAddress.objects.filter(assigned_object_type=kind, assigned_object_id__in=owner_of).order_by("pk"):
        owner_of[mac.assigned_object_id].macs.setdefault(mac.assigned_object_id, []).append(mac)
    for address in IPAddress.objects.filter(assigned_object_type=kind, assigned_object_id__in=owner_of).order_by("pk"):
        owner_of[address.assigned_object_id].addresses.setdefault(address.assigned_object_id, []).append(address)


def _taken(found: list[Standing]) -> list[Problem]:
    """Name the MACs that another device of NetBox holds: NetBox itself lets two interfaces have one."""
    wanted: dict[str, Standing] = {}
    for standing in found:
        for key, value in standing.node.fields.items():
            if key.startswith("interfaces.") and key.endswith(".mac") and value:
                wanted[value] = standing
    problems = []
    kind = ContentType.objects.get_for_model(Interface)
    held = MACAddress.objects.filter(mac_address__in=list(wanted), assigned_object_type=kind)
    pairs = [
        (str(mac).lower().replace("-", ":"), pk) for mac, pk in held.values_list("mac_address", "assigned_object_id")
    ]
    devices = dict(Interface.objects.filter(pk__in=[pk for _, pk in pairs]).values_list("pk", "device_id"))
    for mac, interface in pairs:
        standing = wanted[mac]
        if standing.device is None or devices.get(interface) != standing.device.pk:
            problems.append(Problem(standing.node.name, "mac", f"{mac} belongs to another device in NetBox."))
    return problems


def _device_fields(device: Device) -> dict[str, Any]:
    return {
        "site": device.site.slug,
        "rack": device.rack.name if device.rack else None,
        "position": float(device.position) if device.position is not None else None,
        "face": device.face or None,
        "role": SPELLINGS["role"](device.role),
        "device_type": SPELLINGS["device_type"](device.device_type),
        "serial": device.serial,
        "primary_ip4": str(device.primary_ip4.address) if device.primary_ip4 else None,
        "primary_ip6": str(device.primary_ip6.address) if device.primary_ip6 else None,
    }


def _machine_fields(machine: Machine) -> dict[str, Any]:
    return {
        "class": machine.machine_class.slug if machine.machine_class else None,
        "disk_serial": machine.disk_serial,
        "disk_wwn": machine.disk_wwn,
        "extra_disks": sorted(machine.extra_disks),
        "bmc.address": machine.bmc_address,
        "bmc.secret": machine.bmc_secret,
        "firmware": machine.firmware,
    }


def host_of(address: str) -> str:
    """Return the address without its prefix length."""
    return str(ipaddress.ip_interface(address).ip)
