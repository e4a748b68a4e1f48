"""How much processor time processes use, whatever else the host does: a rate by wall clock says little on a busy host."""

import os
from collections.abc import Sequence
from pathlib import Path

CORES = 2
"""The targets are those of two cores."""
_TICK = os.sysconf("SC_CLK_TCK")


def seconds_of(roots: Sequence[int]) -> float:
    """Return the processor seconds that these processes and all below them used, the ended ones included."""
    found = {int(file.parent.name): numbers for file in Path("/proc").glob("[0-9]*/stat") if (numbers := _read(file))}
    total, waiting = 0, list(roots)
    while waiting:
        pid = waiting.pop()
        waiting += [child for child, (parent, _) in found.items() if parent == pid]
        total += found.get(pid, (0, 0))[1]
    return total / _TICK


def _read(file: Path) -> tuple[int, int] | None:
    """Return parent and clock ticks (user, system, and those of children that were waited for); None when it is gone."""
    try:
        fields = file.read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return int(fields[1]), sum(map(int, fields[11:15]))
