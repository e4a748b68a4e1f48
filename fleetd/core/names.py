"""The identifiers that travel through every layer, each with its own type."""

import re
from enum import StrEnum
from typing import NewType
from uuid import UUID

MachineId = NewType("MachineId", int)
"""NetBox's number of a Machine record."""

RunId = NewType("RunId", UUID)
"""The UUID of the intent that a run executes."""

EnrollmentId = NewType("EnrollmentId", UUID)
"""The id of the challenge token that started an enrollment."""

DiskSerial = NewType("DiskSerial", str)
"""A disk's serial number, trimmed and case-folded (`disk_serial`)."""

MacAddress = NewType("MacAddress", str)
"""A MAC address in lower case with colons (`mac_address`)."""


class IntentKind(StrEnum):
    """What an owner can ask of a machine."""

    PROVISION = "provision"
    ATTEST = "attest"
    WIPE = "wipe"
    RETIRE = "retire"

    @property
    def erases(self) -> bool:
        """Whether the intent destroys data on the declared disk."""
        return self is not IntentKind.ATTEST

    @property
    def issues(self) -> bool:
        """Whether a passed enrollment of such a run issues certificates."""
        return self in {IntentKind.PROVISION, IntentKind.ATTEST}


class StatementKind(StrEnum):
    """What only a person can say of a machine."""

    RELEASE = "release"
    LOST = "lost"
    POWER_OFF = "power-off"
    DISK = "disk"


class Phase(StrEnum):
    """What an owner sees of a machine."""

    DECLARED = "declared"
    WAITING = "waiting"
    ATTESTING = "attesting"
    ATTESTED = "attested"
    ERASING = "erasing"
    INSTALLING = "installing"
    CONFIGURING = "configuring"
    ACTIVE = "active"
    WIPED = "wiped"
    RETIRING = "retiring"
    RETIRED = "retired"
    FAILED = "failed"
    QUARANTINED = "quarantined"


class Family(StrEnum):
    """How an operating system is delivered."""

    TALOS = "talos"
    NIXOS_IMAGE = "nixos-image"
    ALPINE_IMAGE = "alpine-image"
    CLOUD_INIT_NOCLOUD = "cloud-init-nocloud"


def disk_serial(text: str) -> DiskSerial:
    """Return the serial as it is compared: trimmed and case-folded."""
    return DiskSerial(text.strip().casefold())


def mac_address(text: str) -> MacAddress:
    """Return the MAC in lower case with colons.

    Raises ValueError when the text is not six octets in one of the usual spellings.
    """
    digits = re.sub(r"[:.\-]", "", text.strip().lower())
    if not re.fullmatch(r"[0-9a-f]{12}", digits):
        raise ValueError(f"not a MAC address: {text[:40]!r}")
    return MacAddress(":".join(digits[i : i + 2] for i in range(0, 12, 2)))
