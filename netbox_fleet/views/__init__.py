"""Pages by model; importing this package registers their URLs."""

from netbox_fleet.views import (
    attestation,
    baseline,
    bootcheck,
    device,
    devicecertificate,
    endorsementkey,
    machine,
    machine_actions,
    machineclass,
    overview,
    run,
    statement,
)

__all__ = (
    "attestation",
    "baseline",
    "bootcheck",
    "device",
    "devicecertificate",
    "endorsementkey",
    "machine",
    "machine_actions",
    "machineclass",
    "overview",
    "run",
    "statement",
)
