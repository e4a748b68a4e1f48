"""Endorsement keys that machines proved to hold: new ones wait for a person."""

from typing import Any

from netbox_fleet.choices import ChainStatusChoices, KeyStatusChoices
from netbox_fleet.models import EndorsementKey, Machine

_OF_NOBODY = {KeyStatusChoices.PENDING, KeyStatusChoices.REJECTED}
"""A key of no machine becomes that of the machine it waits for; a rejected one, too: only so the service is told of the word."""

_FACTS = ("key_type", "manufacturer", "model", "version", "chain_status", "findings")


def note(data: dict[str, Any], machine: Machine | None, candidates: list[Machine]) -> None:
    """Remember a key; decisions and an existing binding to a machine stay untouched."""
    key = EndorsementKey.objects.filter(public_hash=data["public_hash"]).first() or _declared(data, machine)
    if key is None:
        key = EndorsementKey.objects.create(
            machine=machine,
            status=KeyStatusChoices.PENDING,
            public_hash=data["public_hash"],
            certificate_sha256=data.get("certificate_sha256") or "",
            first_seen_address=data.get("first_seen_address") or "",
            chain_status=data.get("chain_status") or ChainStatusChoices.UNVERIFIED,
            **{name: data[name] for name in _FACTS if name in data and name != "chain_status"},
        )
    else:
        _learn(key, data, machine)
    if candidates and key.machine_id is None:
        key.candidates.set(candidates)


def _declared(data: dict[str, Any], machine: Machine | None) -> EndorsementKey | None:
    """Find the key that a person declared for this machine by its certificate alone."""
    certificate = data.get("certificate_sha256")
    if not certificate or machine is None:
        return None
    return EndorsementKey.objects.filter(public_hash="", certificate_sha256=certificate, machine=machine).first()


def _learn(key: EndorsementKey, data: dict[str, Any], machine: Machine | None) -> None:
    values = {name: data[name] for name in _FACTS if name in data}
    if not key.public_hash:
        values["public_hash"] = data["public_hash"]
    if not key.certificate_sha256 and data.get("certificate_sha256"):
        values["certificate_sha256"] = data["certificate_sha256"]
    if not key.first_seen_address and data.get("first_seen_address"):
        values["first_seen_address"] = data["first_seen_address"]
    if key.machine_id is None and machine is not None and key.status in _OF_NOBODY:
        values["machine"] = machine
    changed = {name: value for name, value in values.items() if getattr(key, name) != value}
    if changed:
        key.snapshot()
        for name, value in changed.items():
            setattr(key, name, value)
        key.save()
