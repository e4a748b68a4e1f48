"""Erasing by the NVMe controller itself: Sanitize and Format (NVM Express Base Specification 2.0, 5.14, 5.24)."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from fleet_machine.clock import Clock
from fleet_machine.disk.commands import DiskCommands, NvmeCommand
from fleet_machine.disk.methods import EraseFailedError, NotSupportedError
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.source import OpenedDisk

IDENTIFY, GET_LOG, FORMAT, SANITIZE = 0x06, 0x02, 0x80, 0x84
SANITIZE_LOG = 0x81
POLL = 2.0
STALLED_AFTER = 900.0
FORMAT_TIMEOUT_MS = 12 * 3600 * 1000


class SanitizeAction(IntEnum):
    """SANACT of the Sanitize command."""

    EXIT_FAILURE = 1
    BLOCK_ERASE = 2
    OVERWRITE = 3
    CRYPTO_ERASE = 4


class SanitizeStatus(IntEnum):
    """Low three bits of SSTAT in the Sanitize Status log."""

    NEVER = 0
    DONE = 1
    RUNNING = 2
    FAILED = 3
    DONE_NO_DEALLOCATE = 4


@dataclass(frozen=True, slots=True)
class Controller:
    """What Identify Controller says about erasing."""

    sanitize_capabilities: int
    format_attributes: int

    def best_sanitize(self) -> SanitizeAction | None:
        """Return the strongest action that the controller has; None when it has none."""
        for bit, action in (
            (0x2, SanitizeAction.BLOCK_ERASE),
            (0x1, SanitizeAction.CRYPTO_ERASE),
            (0x4, SanitizeAction.OVERWRITE),
        ):
            if self.sanitize_capabilities & bit:
                return action
        return None

    @property
    def format_hits_all(self) -> bool:
        """Whether a format or its secure erase acts on every namespace (FNA bits 0 and 1)."""
        return bool(self.format_attributes & 0x3)

    @property
    def format_can_crypto(self) -> bool:
        """Whether a format can throw the key away (FNA bit 2)."""
        return bool(self.format_attributes & 0x4)


def identify(commands: DiskCommands, fd: int) -> Controller:
    """Read Identify Controller. Raises OSError when the disk is no NVMe disk."""
    _result, data = commands.nvme_admin(fd, NvmeCommand(IDENTIFY, cdw10=1, read=4096))
    return Controller(struct.unpack_from("<I", data, 328)[0], data[524])


def sanitize(opened: OpenedDisk, commands: DiskCommands, clock: Clock, pace: Pace) -> bool:
    """Sanitize the whole controller and wait for its end; one that runs already (power cut) is waited for.

    Returns whether what it leaves may look random. Raises NotSupportedError, EraseFailedError.
    """
    action = identify(commands, opened.fd).best_sanitize()
    if action is None:
        raise NotSupportedError("the controller has no sanitize")
    progress, status = _sanitize_log(commands, opened.fd)
    if status is not SanitizeStatus.RUNNING:
        if status is SanitizeStatus.FAILED:
            commands.nvme_admin(opened.fd, NvmeCommand(SANITIZE, cdw10=SanitizeAction.EXIT_FAILURE))
        # OVERWRITE: one pass (OWPASS, bits 7:4) of the pattern in dword 11, zeros.
        passes = 0x10 if action is SanitizeAction.OVERWRITE else 0
        commands.nvme_admin(opened.fd, NvmeCommand(SANITIZE, cdw10=action | passes))
    seen, since = progress, clock.boot()
    while True:
        progress, status = _sanitize_log(commands, opened.fd)
        if status in (SanitizeStatus.DONE, SanitizeStatus.DONE_NO_DEALLOCATE):
            return action is SanitizeAction.CRYPTO_ERASE
        if status is not SanitizeStatus.RUNNING:
            raise EraseFailedError(f"the sanitize ended with status {status.name.lower()}")
        if progress != seen:
            seen, since = progress, clock.boot()
        if clock.boot() - since > STALLED_AFTER:
            raise EraseFailedError(f"the sanitize stands still at {progress * 100 // 65536} percent")
        pace.report(progress, 65536, f"The NVMe controller sanitizes ({action.name.lower().replace('_', ' ')}).")
        clock.sleep(POLL)


def format_namespace(
    opened: OpenedDisk, commands: DiskCommands, pace: Pace, waited: Callable[[Callable[[], None], Pace, str], None]
) -> bool:
    """Format the namespace with secure erase, keeping its LBA format.

    `waited` runs a blocking command while progress is told. Returns whether what it leaves may look random.
    Raises OSError.
    """
    controller = identify(commands, opened.fd)
    nsid = commands.nvme_namespace(opened.fd)
    _result, namespace = commands.nvme_admin(opened.fd, NvmeCommand(IDENTIFY, nsid=nsid, cdw10=0, read=4096))
    crypto = controller.format_can_crypto
    settings = (namespace[26] & 0x0F) | (2 if crypto else 1) << 9
    command = NvmeCommand(FORMAT, nsid=nsid, cdw10=settings, timeout_ms=FORMAT_TIMEOUT_MS)
    waited(lambda: _ignore(commands.nvme_admin(opened.fd, command)), pace, "The NVMe controller formats the namespace.")
    return crypto


def _sanitize_log(commands: DiskCommands, fd: int) -> tuple[int, SanitizeStatus]:
    """Return progress (of 65536) and status."""
    dwords = 512 // 4 - 1
    _result, data = commands.nvme_admin(
        fd, NvmeCommand(GET_LOG, nsid=0xFFFFFFFF, cdw10=SANITIZE_LOG | dwords << 16, read=512)
    )
    progress, status = struct.unpack_from("<HH", data)
    try:
        return progress, SanitizeStatus(status & 0x7)
    except ValueError as error:
        raise EraseFailedError(f"the controller gives a sanitize status that is not known: {status & 0x7}") from error


def _ignore(_answer: object) -> None:
    return None
