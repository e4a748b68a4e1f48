"""JSON Schema of the nodes file, published by `fleetd nodes schema`; NetBox checks every value again."""

from typing import Any

_TEXT = {"type": ["string", "null"], "maxLength": 200}
_TEXTS = {"type": ["array", "null"], "items": {"type": "string", "maxLength": 200}, "maxItems": 64}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _text(description: str) -> dict[str, Any]:
    return {**_TEXT, "description": description}


INTERFACE_FIELDS: dict[str, Any] = {
    "mac": _text("Its primary MAC address."),
    "addresses": {**_TEXTS, "description": "IP addresses with prefix length; all of the interface."},
    "type": _text("NetBox's type of interface, as `1000base-t`; `other` for a new one where nothing is said."),
    "mgmt_only": {"type": ["boolean", "null"], "description": "Whether it is for management only: it never netboots."},
}

NODE_FIELDS: dict[str, Any] = {
    "name": {
        "type": "string",
        "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        "description": "Node name: lower-case letters, digits and hyphens, at most 63; the key of the file, unique in the fleet.",
    },
    "site": _text("Site, by slug or name."),
    "rack": _text("Rack at the site, by name."),
    "position": {"type": ["string", "null"], "description": "Lowest rack unit."},
    "face": _text("`front` or `rear`."),
    "role": _text("Device role, by slug or name."),
    "device_type": _text("Device type, by slug, model or `manufacturer/slug`."),
    "class": _text("Machine class, as the service has reported it."),
    "serial": _text("Serial number of the device."),
    "disk_serial": _text("Serial of the one disk that may be erased and written."),
    "disk_wwn": _text("World Wide Name of that disk, where the maker repeats serials."),
    "extra_disks": {**_TEXTS, "description": "Serials of further disks that wipe and retire erase too."},
    "firmware": _text("Firmware version that the machine should report."),
    "primary_ip4": _text("Primary IPv4 address; the first of a new node where nothing is said."),
    "primary_ip6": _text("Primary IPv6 address, likewise."),
    "bmc": {
        **_object(
            address=_text("Host name or address of the BMC."),
            secret=_text("Name of the Secret with its credentials; never the credentials."),
        ),
        "description": "Management controller.",
    },
    "interfaces": {
        "type": "object",
        "maxProperties": 64,
        "propertyNames": {"minLength": 1, "maxLength": 64},
        "additionalProperties": _object(**INTERFACE_FIELDS),
        "description": "Interfaces by name.",
    },
}

NODES_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Nodes file of fleetd",
    "type": "object",
    "required": ["nodes"],
    "properties": {
        "version": {"enum": [1, "1"]},
        "defaults": {
            **_object(**{name: value for name, value in NODE_FIELDS.items() if name not in {"name", "interfaces"}}),
            "description": "Fields of every node that does not name them itself.",
        },
        "nodes": {"type": "array", "maxItems": 5000, "items": {**_object(**NODE_FIELDS), "required": ["name"]}},
    },
    "additionalProperties": False,
}
