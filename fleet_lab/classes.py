"""The classes of the lab: what its machines are installed with, and what is demanded of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet_lab.images.disk import DiskImage

TALOS_SECRETS: Final = "talos-secrets.yaml"
"""File in fleetd's directory of secrets: the bundle of the lab's Talos cluster."""
PCRS: Final = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14]


@dataclass(frozen=True, slots=True)
class Image:
    """An operating system image on the lab's image server; hash and size are of the raw bytes."""

    name: str
    sha256: str
    size: int
    compression: str = "none"

    @classmethod
    def of(cls, name: str, disk: DiskImage) -> "Image":
        """Describe a built disk image, served under `name`."""
        return cls(name, disk.sha256, disk.size, "zstd")

    def field(self, server: str) -> dict[str, Any]:
        """Return the class's `image`, served at `server` (scheme, host and port)."""
        return {
            "url": f"{server}/images/{self.name}",
            "sha256": self.sha256,
            "size": self.size,
            "sector_size": 512,
            "compression": self.compression,
        }


def lab_alpine(image: Image, server: str, hookos: Sequence[str]) -> dict[str, Any]:
    """Return `lab-alpine`: installed by a measured HookOS; `hookos` are the Authenticode digests of its UKI and kernel.

    Each is allowed in its own place only: the kernel alone, with another initrd, is not HookOS.
    """
    allow = [
        {"event": event, "digest": digest} for event, digest in zip(("boot-loader", "kernel"), hookos, strict=True)
    ]
    judged = {"boot": "judged", "secure_boot": "optional", "allow": allow}
    return _class("lab-alpine", "alpine-image", image, server, judged)


def lab_cloud_init(image: Image, server: str) -> dict[str, Any]:
    """Return `lab-cloud-init`: its seed is written in HookOS, which the network is trusted to boot."""
    made = _class(
        "lab-cloud-init", "cloud-init-nocloud", image, server, {"boot": "network-trusted", "secure_boot": "optional"}
    )
    made["attestation"]["allow_secrets_in_network_trusted"] = True
    return {**made, "seed": {"template": "cloud-init-basic"}}


def lab_light(
    image: Image, server: str, *, name: str = "lab-light", family: str = "alpine-image", signature_key: str = ""
) -> dict[str, Any]:
    """Return a class of light machines: nothing boots on them, so nothing of their boot can be judged."""
    made = _class(name, family, image, server, {"boot": "network-trusted", "secure_boot": "optional"})
    made["attestation"]["allow_secrets_in_network_trusted"] = True
    if signature_key:
        made["image"]["signature_key"] = signature_key
    if family == "cloud-init-nocloud":
        made["seed"] = {"template": "cloud-init-basic"}
    if family == "talos":
        made["seed"] = {
            "template": "talos-worker.yaml",
            "secrets": [TALOS_SECRETS],
            "values": {"cluster": "lab", "endpoint": "https://k8s.example.org:6443", "kubernetes": "1.36.1"},
        }
    return made


def _class(name: str, family: str, image: Image, server: str, install: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "family": family,
        "role": "node",
        "architecture": "amd64",
        "image": image.field(server),
        "disk": {"min_size": image.size, "erase": "quick", "fallback": ["discard", "overwrite"]},
        "attestation": {
            "pcrs": {"bank": "sha256", "select": PCRS},
            "install": install,
            "check": {
                "baseline": [0, 2, 3, 7],
                "report_only": [1, 4, 5, 6, 8, 9, 12, 13, 14],
                "secure_boot": "optional",
            },
            "ek_certificate": "required",
        },
        "boot": {"uefi": True, "bmc": "required"},
    }
