"""fleetd's processes as they are, but with a wall clock that a test sets forth and back.

The kernel has no namespace for the wall clock, and setting that of the host would set everybody's. So the seconds in a
file are added to what fleetd reads of the host's clock, in all its processes at once; PostgreSQL, the broker's client,
NetBox and the machines keep the host's time, as other hosts would. The monotonic clock is the kernel's.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetd.cli import main
from fleetd.wiring import SystemClock
from tests.e2e import ahead  # noqa: F401 - for what it imports

OFFSET = "STEPPED_OFFSET"
"""Names the file."""


def step(file: Path, seconds: float) -> None:
    """Set the clock so many seconds ahead of the host's."""
    beside = file.with_suffix(".new")
    beside.write_text(str(seconds))
    beside.rename(file)


def run(arguments: Sequence[str]) -> int:
    """Be `fleetd ARGUMENTS` with the clock of the file."""
    file = Path(os.environ[OFFSET])
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    SystemClock.now = lambda _: datetime.now(UTC) + timedelta(seconds=float(file.read_text()))  # type: ignore[method-assign]
    sys.argv = ["fleetd", *arguments]
    main()
    return 0
