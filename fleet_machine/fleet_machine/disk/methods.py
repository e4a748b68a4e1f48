"""The ways to erase a disk, and how one says that it did not work."""

from enum import Enum

from fleet_machine.failure import FleetError


class Depth(Enum):
    """How thoroughly a class wants a disk erased."""

    QUICK = "quick"
    """Partition tables, signatures and what discard covers; other data may remain, and the evidence says so."""
    DEEP = "deep"
    """Every block, proven by samples."""


class Method(Enum):
    """One way to erase; the names are those of classes.json."""

    SANITIZE = "sanitize"
    FORMAT = "format"
    SECURE_ERASE = "secure-erase"
    DISCARD = "discard"
    OVERWRITE = "overwrite"


class EraseFailedError(FleetError):
    """A method was tried and did not erase the disk."""


class NotSupportedError(EraseFailedError):
    """The disk has no such method, or it must not be used here; nothing was changed."""
