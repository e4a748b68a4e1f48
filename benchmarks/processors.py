"""How much processor time processes use, whatever else the host does: a rate by wall clock says little on a busy host."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

CORES = 2
"""The targets are those of two cores."""
_TICK = os.sysconf("SC_CLK_TCK")


def seconds_of(roots: Sequence[int]) -> float:
    """Return the processor seconds that these processes and all below them used, the ended ones included."""
    return sum(ticks for _, ticks in below(roots)) / _TICK


def below(roots: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield these processes and all that they started: id, and clock ticks used."""
    found = {int(file.parent.name): numbers for file in Path("/proc").glob("[0-9]*/stat") if (numbers := _read(file))}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        waiting += [child for child, (parent, _) in found.items() if parent == pid]
        yield pid, found.get(pid, (0, 0))[1]


def _read(file: Path) -> tuple[int, int] | None:
    """Return parent and clock ticks (user, system, and those of children that were waited for); None when it is gone."""
    try:
        fields = file.read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return int(fields[1]), sum(map(int, fields[11:15]))
