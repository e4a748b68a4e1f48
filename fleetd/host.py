"""What the host gives: its clocks and its randomness."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The host's clocks."""

    def now(self) -> datetime:
        """Return the wall clock, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return CLOCK_BOOTTIME in seconds: all processes of the host share it, and it runs through a suspend."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot(self) -> str:
        """Return the kernel's id of this boot."""
        return _BOOT_ID.read_text().strip()


class SystemRandom:
    """The kernel's randomness."""

    def bytes(self, count: int) -> bytes:
        """Return `count` unpredictable bytes."""
        return os.urandom(count)
