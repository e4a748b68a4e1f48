"""ATA Security Erase (ACS-4, sections 4.18 and 7.46 to 7.51) through SCSI pass-through (SAT-4, section 12.2.3)."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from fleet_machine.disk.commands import DiskCommands
from fleet_machine.disk.methods import EraseFailedError, NotSupportedError
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.source import OpenedDisk

IDENTIFY, SET_PASSWORD, UNLOCK, ERASE_PREPARE, ERASE_UNIT, DISABLE = 0xEC, 0xF1, 0xF2, 0xF3, 0xF4, 0xF6
NON_DATA, PIO_IN, PIO_OUT = 3, 4, 5
PASSWORD = b"fleet-erase".ljust(32, b"\0")
"""Not a secret: set for the time of the erase only, and known so that an erase cut off by a power loss can be repeated."""
SHORT_TIMEOUT = 60.0
LONGEST_ERASE = 48 * 3600.0


@dataclass(frozen=True, slots=True)
class Security:
    """Word 128 of IDENTIFY DEVICE, and how long an erase takes in seconds (words 89 and 90)."""

    supported: bool
    enabled: bool
    locked: bool
    frozen: bool
    expired: bool
    enhanced: bool
    seconds: float

    @classmethod
    def from_identify(cls, data: bytes) -> "Security":
        """Read the 512 bytes of IDENTIFY DEVICE."""
        words = struct.unpack("<256H", data)
        bits = [bool(words[128] >> bit & 1) for bit in range(6)]
        raw = words[90] if bits[5] else words[89]
        minutes = (raw & 0x7FFF if raw & 0x8000 else raw & 0xFF) * 2
        return cls(bits[0], bits[1], bits[2], bits[3], bits[4], bits[5], minutes * 60.0)


def secure_erase(
    opened: OpenedDisk, commands: DiskCommands, pace: Pace, waited: Callable[[Callable[[], None], Pace, str], None]
) -> bool:
    """Let the drive erase itself, enhanced where it can; an erase that a power cut ended is unlocked and repeated.

    Returns whether what it leaves may look random. Raises NotSupportedError, EraseFailedError, OSError.
    """
    security = _identify(commands, opened.fd)
    if not security.supported:
        raise NotSupportedError("the drive has no ATA security erase")
    if security.frozen:
        raise NotSupportedError(
            "the drive's security is frozen by the firmware: switch the machine off and on, or the freeze lock off in the "
            "firmware setup"
        )
    if security.expired:
        raise NotSupportedError("the drive takes no more passwords before it is switched off and on")
    if security.locked:
        _out(commands, opened.fd, UNLOCK, _password(0), "it is locked with a password that is not known here")
    _out(commands, opened.fd, SET_PASSWORD, _password(0), "it does not take the password that an erase needs")
    limit = min(LONGEST_ERASE, max(3600.0, security.seconds * 2))

    def erase() -> None:
        _command(commands, opened.fd, ERASE_PREPARE, NON_DATA, b"", SHORT_TIMEOUT)
        _command(commands, opened.fd, ERASE_UNIT, PIO_OUT, _password(0x2 if security.enhanced else 0), limit)

    waited(erase, pace, f"The drive erases itself; it says that this takes {security.seconds / 60:.0f} min.")
    after = _identify(commands, opened.fd)
    if after.enabled:
        _out(commands, opened.fd, DISABLE, _password(0), "its password cannot be removed after the erase")
        raise EraseFailedError("the drive's password was still set after the erase: it was not completed")
    return security.enhanced


def _identify(commands: DiskCommands, fd: int) -> Security:
    return Security.from_identify(_command(commands, fd, IDENTIFY, PIO_IN, b"", SHORT_TIMEOUT))


def _password(control: int) -> bytes:
    """Return the 512 bytes of a security command: control word (bit 0 master, bit 1 enhanced), then the password."""
    return struct.pack("<H", control) + PASSWORD + bytes(512 - 34)


def _out(commands: DiskCommands, fd: int, command: int, data: bytes, otherwise: str) -> None:
    try:
        _command(commands, fd, command, PIO_OUT, data, SHORT_TIMEOUT)
    except OSError as error:
        raise EraseFailedError(f"the drive refuses: {otherwise}") from error


def _command(commands: DiskCommands, fd: int, command: int, protocol: int, data: bytes, timeout: float) -> bytes:
    """Send an ATA command in ATA PASS-THROUGH (16). Raises OSError when the drive ends it with an error."""
    transfer = {NON_DATA: 0x20, PIO_IN: 0x2E, PIO_OUT: 0x26}[protocol]  # CK_COND; T_DIR, BYT_BLOK, T_LENGTH = count
    count = 0 if protocol == NON_DATA else 1
    cdb = bytes([0x85, protocol << 1, transfer, 0, 0, 0, count, 0, 0, 0, 0, 0, 0, 0, command, 0])
    answer = commands.scsi(fd, cdb, read=512 if protocol == PIO_IN else 0, write=data, timeout=timeout)
    # With CK_COND the drive always returns sense data: descriptor 0x09 holds the ATA status, bit 0 is its error bit.
    descriptor = answer.sense[8:22]
    if answer.sense[0] & 0x7F == 0x72 and descriptor[0] == 0x09:
        if descriptor[13] & 0x21:
            raise OSError(5, f"the drive ends command 0x{command:02x} with status 0x{descriptor[13]:02x}")
    elif answer.status:
        raise OSError(5, f"the drive or its bridge refuses command 0x{command:02x}")
    return answer.data
