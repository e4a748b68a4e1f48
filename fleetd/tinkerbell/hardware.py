"""The Hardware that fleetd keeps for each machine: what netboots, under which identity, and whether it may."""

import copy
from ipaddress import IPv4Interface, ip_address, ip_interface

from fleetd.core.names import MachineId
from fleetd.ports import HardwareWanted, OutageError, RefusedError
from fleetd.tinkerbell.api import HARDWARE, MACHINES, Api, ConflictError, Json
from fleetd.tinkerbell.names import MACHINE_LABEL, NODE_LABEL, label_value, machine_name

_TRIES = 5
"""Of a read and guarded write; Tinkerbell's own controller writes Hardware too."""
_LEASE = 86400


def keep_hardware(api: Api, wanted: HardwareWanted) -> None:
    """Create the Hardware, or correct what fleetd decides about it; what others wrote to it stays."""
    name = machine_name(wanted.machine)
    for _ in range(_TRIES):
        present = api.get(HARDWARE, name)
        if present is None:
            fresh = HARDWARE.body(name, {MACHINE_LABEL: str(wanted.machine)}, {})
            created = api.create(HARDWARE, merged(fresh, wanted))
            if not created.existed:
                return
            present = created.item
        if _written(api, present, merged(present, wanted)):
            return
    raise OutageError(f"Hardware {name} changes faster than it can be written.")


def set_allow_pxe(api: Api, machine: MachineId, *, allowed: bool) -> None:
    """Set allowPXE of every interface; absent Hardware already forbids it."""
    name = machine_name(machine)
    for _ in range(_TRIES):
        present = api.get(HARDWARE, name)
        if present is None:
            if allowed:
                raise RefusedError(f"Hardware {name} does not exist: the machine cannot be allowed to netboot.")
            return
        changed = copy.deepcopy(present)
        for interface in changed.get("spec", {}).get("interfaces", []):
            interface.setdefault("netboot", {})["allowPXE"] = allowed
        if _written(api, present, changed):
            return
    raise OutageError(f"Hardware {name} changes faster than it can be written.")


def merged(present: Json, wanted: HardwareWanted) -> Json:
    """Return the object with everything that fleetd decides about it; pure."""
    result = copy.deepcopy(present)
    labels = result["metadata"].setdefault("labels", {})
    labels[MACHINE_LABEL] = str(wanted.machine)
    if node := label_value(wanted.node_name):
        labels[NODE_LABEL] = node
    spec = result.setdefault("spec", {})
    name = machine_name(wanted.machine)
    spec["agentID"] = name
    known = {interface.get("dhcp", {}).get("mac"): interface for interface in spec.get("interfaces", [])}
    addresses = [*wanted.addresses, *[""] * len(wanted.macs)]
    spec["interfaces"] = [
        _interface(known.get(mac, {}), wanted, mac, address)
        for mac, address in zip(wanted.macs, addresses, strict=False)
    ]
    if wanted.bmc:
        spec["bmcRef"] = {"apiGroup": MACHINES.group, "kind": MACHINES.kind, "name": name}
    else:
        spec.pop("bmcRef", None)
    return result


def _interface(present: Json, wanted: HardwareWanted, mac: str, address: str) -> Json:
    dhcp = dict(present.get("dhcp", {}))
    dhcp |= {"mac": mac, "hostname": wanted.node_name, "arch": dhcp.get("arch", "x86_64"), "uefi": True}
    dhcp.setdefault("lease_time", _LEASE)
    if lease := _lease(address, wanted.gateway):
        dhcp["ip"] = lease
    else:
        dhcp.pop("ip", None)
    netboot = {**present.get("netboot", {}), "allowPXE": wanted.allow_pxe, "allowWorkflow": True}
    return {**present, "dhcp": dhcp, "netboot": netboot}


def _lease(address: str, gateway: str) -> Json:
    """Return the DHCPv4 lease for an address in CIDR form; nothing for another, or for none."""
    try:
        parsed = ip_interface(address)
    except ValueError:
        return {}
    if not isinstance(parsed, IPv4Interface):
        return {}
    lease = {"address": str(parsed.ip), "netmask": str(parsed.netmask)}
    if gateway and ip_address(gateway) in parsed.network:
        lease["gateway"] = gateway
    return lease


def _written(api: Api, before: Json, after: Json) -> bool:
    """Write the object when it differs; False when somebody else was faster."""
    if _decided(after) == _decided(before):
        return True
    try:
        api.replace(HARDWARE, after)
    except ConflictError:
        return False
    except LookupError:  # deleted since it was read
        return False
    return True


def _decided(item: Json) -> Json:
    """Return the parts that fleetd writes, the API's own defaults aside."""
    spec = copy.deepcopy(item.get("spec", {}))
    for interface in spec.get("interfaces", []):
        if interface.get("disableDhcp") is False:
            del interface["disableDhcp"]
    return {"labels": item["metadata"].get("labels", {}), "spec": spec}
