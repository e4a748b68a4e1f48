"""Write one planned node into NetBox: device, interfaces, MACs, addresses, machine, and what was applied.

Every record is cleaned and saved as a form would do it, so that NetBox's rules, the change log and event rules hold;
and for every record the user's own permission is asked, before and after the change.
"""

from typing import Any

from dcim.models import Device, Interface, MACAddress
from django.core.exceptions import ValidationError
from ipam.models import IPAddress

from netbox_fleet.models import AppliedNode, Machine
from netbox_fleet.nodes.plan import Planned
from netbox_fleet.nodes.present import Standing, host_of
from netbox_fleet.nodes.references import References
from netbox_fleet.nodes.wire import interface_part


class RefusedError(Exception):
    """NetBox refuses a record; `field` and the message say which and why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def write(planned: Planned, references: References, user: Any) -> None:
    """Write what the merge changes. Raises RefusedError; the caller's transaction is then undone."""
    _Writer(planned, references, user).write()


class _Writer:
    def __init__(self, planned: Planned, references: References, user: Any) -> None:
        self._standing: Standing = planned.standing
        self._merge = planned.merge
        self._wanted: dict[str, Any] = {row.field: row.file for row in planned.merge.changes}
        self._references = references
        self._user = user
        self._loose: list[IPAddress] = []
        """Addresses that the file no longer gives."""

    def write(self) -> None:
        device = self._device()
        self._interfaces(device)
        self._primaries(device)
        self._let_go()
        new = self._standing.machine is None
        machine = self._machine(device)
        remembered = {"fields": self._merge.applied, "applied_by": self._user.get_username()[:150]}
        if new:
            AppliedNode.objects.create(machine=machine, **remembered)
        else:
            AppliedNode.objects.update_or_create(machine=machine, defaults=remembered)

    # --- device -----------------------------------------------------------------------------------------------------

    def _device(self) -> Device:
        device = self._standing.device
        values: dict[str, Any] = {
            name: self._wanted[name] for name in ("site", "rack", "role", "device_type") if name in self._wanted
        }
        if device is None:
            device = Device(name=self._standing.node.name, status="planned")
            self._fill_device(device, values)
            self._save(device, "device")
            self._standing.device = device
            # Its type's templates made interfaces: they are found, not made again.
            found = Interface.objects.filter(device=device).select_related("primary_mac_address")
            self._standing.interfaces = {interface.name: interface for interface in found}
        elif values or self._wanted.keys() & {"serial", "position", "face"}:
            device.snapshot()
            self._fill_device(device, values)
            self._save(device, "device")
        return device

    def _fill_device(self, device: Device, values: dict[str, Any]) -> None:
        for name in values.keys() - {"rack"}:
            setattr(device, name, self._references.one(name, values[name]))
        if "rack" in values:
            name = values["rack"]
            device.rack = self._references.rack(device.site.slug, name) if name else None
        if "serial" in self._wanted:
            device.serial = self._wanted["serial"] or ""
        for name in ("position", "face"):
            if name in self._wanted:
                setattr(device, name, self._wanted[name] or (None if name == "position" else ""))

    # --- interfaces -------------------------------------------------------------------------------------------------

    def _interfaces(self, device: Device) -> None:
        parts: dict[str, dict[str, Any]] = {}
        for key in self._standing.node.fields:
            name, part = interface_part(key)
            if name:
                changes = parts.setdefault(name, {})
                if key in self._wanted:
                    changes[part] = self._wanted[key]
        for name, changes in parts.items():
            self._interface(device, name, changes)

    def _interface(self, device: Device, name: str, changes: dict[str, Any]) -> None:
        where = f"interfaces.{name}"
        interface = self._standing.interfaces.get(name)
        plain = {key: value for key, value in changes.items() if key in {"type", "mgmt_only"}}
        if interface is None:
            interface = Interface(device=device, name=name, type="other")
            self._set(interface, plain)
            self._save(interface, where)
            self._standing.interfaces[name] = interface
        elif plain:
            interface.snapshot()
            self._set(interface, plain)
            self._save(interface, where)
        if "mac" in changes:
            self._mac(interface, changes["mac"], f"{where}.mac")
        if "addresses" in changes:
            self._addresses(interface, changes["addresses"] or [], f"{where}.addresses")

    def _set(self, interface: Interface, plain: dict[str, Any]) -> None:
        if "type" in plain:
            interface.type = plain["type"] or "other"
        if "mgmt_only" in plain:
            interface.mgmt_only = bool(plain["mgmt_only"])

    def _mac(self, interface: Interface, wanted: str | None, where: str) -> None:
        """Make the MAC the interface's primary one; what it replaces stays in NetBox, assigned to nothing."""
        old = [mac for mac in self._standing.macs.get(interface.pk, ()) if _plain(mac) != wanted]
        present = [mac for mac in self._standing.macs.get(interface.pk, ()) if _plain(mac) == wanted]
        chosen = present[0] if present else None
        if wanted and chosen is None:
            free = MACAddress.objects.restrict(self._user, "view").filter(
                mac_address=wanted, assigned_object_id__isnull=True
            )
            chosen = free.first() or MACAddress(mac_address=wanted)
            if chosen.pk:
                chosen.snapshot()
            chosen.assigned_object = interface
            self._save(chosen, where)
        interface.snapshot()
        interface.primary_mac_address = chosen
        self._save(interface, where)
        for mac in old:
            # Read again: what it was assigned to has another primary MAC now.
            loose = MACAddress.objects.get(pk=mac.pk)
            loose.snapshot()
            loose.assigned_object = None
            self._save(loose, where)

    def _addresses(self, interface: Interface, wanted: list[str], where: str) -> None:
        held = {host_of(str(row.address)): row for row in self._standing.addresses.get(interface.pk, ())}
        for address in wanted:
            row = held.pop(host_of(address), None)
            if row is None:
                free = IPAddress.objects.restrict(self._user, "view").filter(
                    address=address, vrf__isnull=True, assigned_object_id__isnull=True
                )
                row = free.first() or IPAddress(address=address, status="active")
            elif str(row.address) == address:
                continue
            if row.pk:
                row.snapshot()
            row.address = address
            row.assigned_object = interface
            self._save(row, where)
            self._standing.addresses.setdefault(interface.pk, [])
            if row not in self._standing.addresses[interface.pk]:
                self._standing.addresses[interface.pk].append(row)
        self._loose += held.values()

    def _let_go(self) -> None:
        """Take addresses off that the file no longer gives: they stay in NetBox, assigned to nothing."""
        for row in self._loose:
            row.snapshot()
            row.assigned_object = None
            self._save(row, "addresses")

    def _primaries(self, device: Device) -> None:
        """Set the primary addresses: as the file says, else the first of a new node, and none that goes away."""
        loose = {row.pk for row in self._loose}
        stay = {name: rows for name, rows in self._held().items() if not self._standing.interfaces[name].mgmt_only}
        changed = False
        for version in (4, 6):
            name = f"primary_ip{version}"
            present = getattr(device, name)
            candidates = [
                row for rows in stay.values() for row in rows if row.pk not in loose and row.family == version
            ]
            chosen = present if present is not None and present.pk not in loose else None
            if name in self._wanted:
                chosen = self._named(self._wanted[name], name)
            elif chosen is None and (self._standing.machine is None or present is not None):
                chosen = candidates[0] if candidates else None
            if (chosen.pk if chosen else None) != (present.pk if present else None):
                if not changed and device.pk:
                    device.snapshot()
                setattr(device, name, chosen)
                changed = True
        if changed:
            self._save(device, "primary_ip4")

    def _named(self, address: str | None, name: str) -> IPAddress | None:
        if address is None:
            return None
        for rows in self._held().values():
            for row in rows:
                if host_of(str(row.address)) == host_of(address):
                    return row
        raise RefusedError(name, f"{address} is no address of this node's interfaces.")

    def _held(self) -> dict[str, list[IPAddress]]:
        addresses = self._standing.addresses
        return {name: addresses.get(one.pk, []) for name, one in self._standing.interfaces.items()}

    # --- machine ----------------------------------------------------------------------------------------------------

    def _machine(self, device: Device) -> Machine:
        machine = self._standing.machine
        names = {
            "disk_serial": "disk_serial",
            "disk_wwn": "disk_wwn",
            "bmc.address": "bmc_address",
            "bmc.secret": "bmc_secret",
            "firmware": "firmware",
        }
        if machine is None:
            machine = Machine(device=device, node_name=self._standing.node.name)
        elif not self._wanted.keys() & {*names, "class", "extra_disks"}:
            return machine
        else:
            machine.snapshot()
        for key, name in names.items():
            if key in self._wanted:
                setattr(machine, name, self._wanted[key] or "")
        if "class" in self._wanted:
            machine.machine_class = self._references.one("class", self._wanted["class"])
        if "extra_disks" in self._wanted:
            machine.extra_disks = self._wanted["extra_disks"] or []
        self._save(machine, "machine")
        return machine

    def _save(self, record: Any, where: str) -> None:
        action = "change" if record.pk else "add"
        permission = f"{record._meta.app_label}.{action}_{record._meta.model_name}"  # noqa: SLF001 -- Django's own name
        if not self._user.has_perm(permission) or (record.pk and not self._user.has_perm(permission, record)):
            raise RefusedError(where, f"You lack the permission {permission}.")
        try:
            _clean(record)
        except ValidationError as problem:
            raise RefusedError(where, "; ".join(_sentences(problem))[:500]) from problem
        if record.pk is None:
            _nothing_related_yet(record)
        record.save()
        if not self._user.has_perm(permission, record):
            raise RefusedError(where, f"Your permission {permission} does not cover this record.")


def _clean(record: Any) -> None:
    """Clean a record as `full_clean` does, but for looking up once more the records that it refers to.

    They were just read or made in this transaction; a look for each is a third of all queries of a new node.
    """
    references = {field.name for field in record._meta.concrete_fields if field.remote_field is not None}  # noqa: SLF001
    record.full_clean(exclude=references, validate_unique=False, validate_constraints=False)
    record.validate_unique()
    record.validate_constraints()


def _nothing_related_yet(record: Any) -> None:
    """Say of a record that is being made that it has no tags and no other many-to-many rows, as a prefetch would.

    The change log reads them at every save of it: a third of all that a new node asks of the database.
    """
    record._prefetched_objects_cache = {  # noqa: SLF001 -- where Django itself keeps what was prefetched
        field.name: field.related_model._default_manager.none()  # noqa: SLF001
        for field in record._meta.many_to_many  # noqa: SLF001
    }


def _plain(mac: MACAddress) -> str:
    return str(mac.mac_address).lower().replace("-", ":")


def _sentences(problem: ValidationError) -> list[str]:
    if not hasattr(problem, "error_dict"):
        return [str(message) for message in problem.messages]
    return [f"{name}: {message}" for name, messages in problem.message_dict.items() for message in messages]
