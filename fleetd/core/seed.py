"""The seed: what a machine is given to become a node, as a value and as the JSON that the installed system reads."""

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Address, Declaration, Disk, Interface
from fleetd.core.names import DiskSerial, MacAddress, MachineId, Phase, RunId

SEED_VERSION = 1


@dataclass(frozen=True, slots=True)
class DeviceCertificates:
    """The certificates of one machine, PEM."""

    ldevid: str
    lak: str
    chain: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of the machine API."""
        return {"ldevid": self.ldevid, "lak": self.lak, "chain": list(self.chain)}


@dataclass(frozen=True, slots=True)
class SeedInputs:
    """All that a seed is rendered from, besides the owner's secrets."""

    run: RunId
    declaration: Declaration
    """As it was recorded when the run began."""
    machine_class: MachineClass
    fleet_url: str
    fleet_ca: str
    """PEM."""
    fleet_keys: str
    """Base64 of the JWKS of service keys."""
    certificates: DeviceCertificates | None
    devid_public: bytes
    """TPMT_PUBLIC."""
    devid_private: bytes
    """TPM2B_PRIVATE without its size prefix: wrapped by the TPM."""
    lak_unique: bytes
    lak_algorithm: str
    """rsa-2048, p-256 or p-384."""


_ISSUED_LATER = "-----BEGIN CERTIFICATE-----\n(issued when the machine has attested)\n-----END CERTIFICATE-----\n"


def rehearsal(declaration: Declaration, machine_class: MachineClass, fleet_url: str, fleet_ca: str) -> SeedInputs:
    """Return inputs like those of a run, with stand-ins for what only the run brings: its id, keys and certificates."""
    return SeedInputs(
        run=RunId(UUID(int=0)),
        declaration=declaration,
        machine_class=machine_class,
        fleet_url=fleet_url,
        fleet_ca=fleet_ca,
        fleet_keys="",
        certificates=DeviceCertificates(_ISSUED_LATER, _ISSUED_LATER, (_ISSUED_LATER,)),
        devid_public=b"(TPMT_PUBLIC)",
        devid_private=b"(TPM2B_PRIVATE)",
        lak_unique=b"",
        lak_algorithm="p-256",
    )


def specimen(machine_class: MachineClass) -> Declaration:
    """Return the declaration of a plain machine of the class, to try its templates with."""
    address = "192.0.2.10/24"
    return Declaration(
        machine=MachineId(1),
        node_name="specimen",
        machine_class=machine_class.slug,
        disk=Disk(DiskSerial("specimen")),
        extra_disks=(),
        bmc_address="",
        bmc_secret="",
        phase=Phase.DECLARED,
        device_name="specimen",
        device_status="planned",
        device_serial="specimen",
        site="site",
        role=machine_class.role,
        primary_ip4=address,
        primary_ip6="",
        interfaces=(Interface("eth0", (MacAddress("02:00:00:00:00:01"),)),),
        addresses=(Address(address, "eth0", "", "192.0.2.1"),),
        keys=(),
        tags=(),
    )


def addresses(declaration: Declaration, dns: list[str]) -> list[dict[str, Any]]:
    """Return the addresses with the MAC of the interface that holds each."""
    macs = {item.name: (item.macs[0] if item.macs else "") for item in declaration.interfaces}
    return [
        {
            "interface": item.interface,
            "mac": macs.get(item.interface, ""),
            "address": item.address,
            "gateway": item.gateway,
            "dns": dns,
            "primary": item.address in {declaration.primary_ip4, declaration.primary_ip6},
        }
        for item in declaration.addresses
    ]


def seed_document(inputs: SeedInputs, secrets: dict[str, str]) -> dict[str, Any]:
    """Return the seed JSON of docs/reference/machine-api.md."""
    declaration, rules = inputs.declaration, inputs.machine_class.seed
    dns = rules.values.get("dns", [])
    return {
        "version": SEED_VERSION,
        "device": declaration.device_name,
        "hostname": declaration.node_name,
        "class": inputs.machine_class.slug,
        "profile": rules.profile or inputs.machine_class.slug,
        "run": str(inputs.run),
        "addresses": addresses(declaration, dns if isinstance(dns, list) else [dns]),
        "endpoints": {"fleetd": inputs.fleet_url, **rules.endpoints},
        "ca": inputs.fleet_ca,
        "keys": inputs.fleet_keys,
        "certificates": inputs.certificates.as_dict() if inputs.certificates else None,
        "devid": {"public": _text(inputs.devid_public), "private": _text(inputs.devid_private)},
        "devid_folder": rules.devid_folder,
        "machine": declaration.machine,
        "lak_unique": _text(inputs.lak_unique),
        "lak_algorithm": inputs.lak_algorithm,
        "values": dict(rules.values),
        "secrets": secrets,
    }


def template_values(inputs: SeedInputs, secrets: dict[str, str]) -> dict[str, Any]:
    """Return what templates may name."""
    declaration = inputs.declaration
    document = seed_document(inputs, secrets)
    return {
        "device": {
            "name": declaration.device_name,
            "serial": declaration.device_serial,
            "status": declaration.device_status,
            "site": declaration.site,
            "role": declaration.role,
            "primary_ip4": declaration.primary_ip4,
            "primary_ip6": declaration.primary_ip6,
            "tags": list(declaration.tags),
        },
        "machine": {"id": declaration.machine, "node_name": declaration.node_name},
        "class_name": inputs.machine_class.slug,
        "family": inputs.machine_class.family.value,
        "run": str(inputs.run),
        "instance_id": f"{declaration.node_name}-{inputs.run.hex[:12]}",
        "interfaces": [
            {"name": item.name, "macs": list(item.macs), "mgmt_only": item.mgmt_only, "enabled": item.enabled}
            for item in declaration.interfaces
        ],
        "addresses": document["addresses"],
        "disk": _disk(declaration),
        "endpoints": document["endpoints"],
        "values": document["values"],
        "secrets": secrets,
        "devid_files": devid_files(inputs),
        "seed": document,
        "seed_json": json.dumps(document, ensure_ascii=True),
        # What the boot check needs, and nothing that a pod with a mount of the host should read.
        "identity_json": json.dumps({**document, "values": {}, "secrets": {}}, ensure_ascii=True),
    }


def _disk(declaration: Declaration) -> dict[str, str] | None:
    disk = declaration.disk
    if disk is None:
        return None
    # Serials are kept case-folded; what a disk says need not be: the pattern (RE2) is for a match without case.
    return {"serial": disk.serial, "serial_pattern": re.escape(disk.serial), "wwn": disk.wwn}


def devid_files(inputs: SeedInputs) -> list[dict[str, str]]:
    """Return the LDevID's files where the class asks for them, as SPIRE's `tpm_devid` and VPN clients read them.

    `text` is empty for the blobs, which only `base64` holds.
    """
    folder = inputs.machine_class.seed.devid_folder.rstrip("/")
    if not folder or inputs.certificates is None:
        return []
    chain = (inputs.certificates.ldevid + "".join(inputs.certificates.chain)).encode()
    contents = {"devid.pem": chain, "devid.pub": inputs.devid_public, "devid.priv": inputs.devid_private}
    return [
        {
            "path": f"{folder}/{name}",
            "base64": _text(content),
            "text": content.decode() if name.endswith(".pem") else "",
        }
        for name, content in contents.items()
    ]


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()


_STRINGS = {"type": "array", "items": {"type": "string"}}
SEED_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Seed of fleetd",
    "type": "object",
    "required": [
        "version",
        "device",
        "class",
        "profile",
        "run",
        "addresses",
        "endpoints",
        "ca",
        "keys",
        "certificates",
        "devid",
        "machine",
        "lak_unique",
        "lak_algorithm",
    ],
    "properties": {
        "version": {"const": SEED_VERSION},
        "device": {"type": "string"},
        "hostname": {"type": "string"},
        "class": {"type": "string"},
        "profile": {"type": "string"},
        "run": {"type": "string", "format": "uuid"},
        "addresses": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["interface", "mac", "address", "gateway", "dns"],
                "properties": {
                    "interface": {"type": "string"},
                    "mac": {"type": "string"},
                    "address": {"type": "string"},
                    "gateway": {"type": "string"},
                    "dns": _STRINGS,
                    "primary": {"type": "boolean"},
                },
            },
        },
        "endpoints": {
            "type": "object",
            "required": ["fleetd"],
            "additionalProperties": {"type": "string"},
        },
        "ca": {"type": "string"},
        "keys": {"type": "string"},
        "certificates": {
            "type": ["object", "null"],
            "required": ["ldevid", "lak", "chain"],
            "properties": {"ldevid": {"type": "string"}, "lak": {"type": "string"}, "chain": _STRINGS},
        },
        "devid": {
            "type": "object",
            "required": ["public", "private"],
            "properties": {"public": {"type": "string"}, "private": {"type": "string"}},
        },
        "devid_folder": {"type": "string"},
        "machine": {"type": "integer"},
        "lak_unique": {"type": "string"},
        "lak_algorithm": {"enum": ["rsa-2048", "p-256", "p-384"]},
        "values": {"type": "object"},
        "secrets": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
