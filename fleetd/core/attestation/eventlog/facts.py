"""What a log says about a boot, in values. Made by `meaning.read_facts` from vouched events only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fleetd.core.attestation.eventlog.variables import UefiVariable


class SeparatorState(StrEnum):
    """How the firmware ended its part in one PCR."""

    NORMAL = "normal"
    ERROR = "error"
    ODD = "odd"
    """A separator with a payload that no specification names; seen on old firmware."""


class ImageRole(StrEnum):
    """What a measured piece of software is."""

    BOOT_LOADER = "boot loader"
    """An EFI application that firmware or a boot loader started: boot loaders, UKIs, kernels with an EFI stub."""
    FILE = "file"
    """A file that GRUB read: modules, configuration, kernels, initrds. Its digest is that of the plain file."""


class LineSource(StrEnum):
    """Who measured a command line."""

    SYSTEMD_STUB = "systemd-stub"
    GRUB = "GRUB"
    LINUX_STUB = "Linux EFI stub"


@dataclass(frozen=True, slots=True)
class MeasuredVariable:
    """A UEFI variable whose bytes the log's digests vouch for."""

    index: int
    pcr: int
    variable: UefiVariable


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate or digest that allowed an image to run, as Secure Boot or shim measured it."""

    index: int
    variable: str
    """The database it stands in: db, vendor_db, MokList, Shim."""
    certificate: bytes | None
    """The certificate (DER), None when the authority is a digest or something else."""
    fingerprint: str
    """SHA-256 of the certificate, or of the value where there is none; hexadecimal."""
    before_separator: bool


@dataclass(frozen=True, slots=True)
class MeasuredImage:
    """Software that was measured before it ran."""

    index: int
    pcr: int
    role: ImageRole
    digest: bytes
    source: str | None
    """Where it came from, as the event says; nothing vouches for this."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A kernel command line or load options; `text` is None when the digest is known and the text is not vouched for."""

    index: int
    pcr: int
    source: LineSource
    digest: bytes
    text: str | None


@dataclass(frozen=True, slots=True)
class UkiSection:
    """A section of a unified kernel image, as systemd-stub measured it into PCR 11."""

    index: int
    name: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class LogFacts:
    """All that a log says about one boot."""

    secure_boot: bool | None = None
    """None: the log does not tell, or tells two things."""
    variables: tuple[MeasuredVariable, ...] = ()
    authorities: tuple[Authority, ...] = ()
    images: tuple[MeasuredImage, ...] = ()
    command_lines: tuple[CommandLine, ...] = ()
    uki_sections: tuple[UkiSection, ...] = ()
    separators: Mapping[int, SeparatorState] = field(default_factory=dict)
    firmware_version: str | None = None
    sbat_level: str | None = None
    boot_attempts: int = 0
    dma_protection_disabled: bool = False
    security_downgraded: bool = False
    debugger_used: bool = False
    opaque: tuple[int, ...] = ()
    """Indexes of events whose digest is of something that the log does not carry."""

    @property
    def boot_loaders(self) -> tuple[MeasuredImage, ...]:
        """The EFI applications that were started."""
        return tuple(image for image in self.images if image.role is ImageRole.BOOT_LOADER)

    def variable(self, name: str) -> UefiVariable | None:
        """Return the last measured variable of this name."""
        return next((found.variable for found in reversed(self.variables) if found.variable.name == name), None)
