"""How long a file of 1,000 nodes takes to be applied into NetBox, and how long it takes when nothing changed.

The owner's command against NetBox's own web server on PostgreSQL with fsync: reading the file, HTTP, the merge, NetBox's
checks and its change log are all in the time. Each stands twice: by the processor time of the command, NetBox and
PostgreSQL, which take turns and so are the time on an idle host, and by wall clock, with whatever else the host does.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.plain_netbox import plain_netbox
from benchmarks.processors import seconds_of
from benchmarks.verdict import at_most
from fleet_lab.nodes_file import a_node, prepare
from fleet_lab.places import CHECKOUT
from fleet_lab.services.netbox import NetBox

NODES = 1_000
MOST_APPLY, MOST_AGAIN = 300, 20


def measure(netbox: NetBox, roots: Sequence[int], folder: Path) -> None:
    """Apply a file twice and print both times."""
    token, file = folder / "owner.token", folder / "nodes.yaml"
    token.touch(mode=0o600)
    token.write_text(prepare(netbox))
    file.write_text(json.dumps({"nodes": [a_node(number) for number in range(NODES)]}))
    command = [sys.executable, "-m", "fleetd", "nodes", "apply", str(file), "--token-file", str(token), "--json"]
    environment = {**os.environ, "FLEETD_NETBOX__URL": netbox.url, "PYTHONPATH": str(CHECKOUT)}
    for name, outcome, most in (
        ("nodes-apply-1000", "applied", MOST_APPLY),
        ("nodes-apply-1000-unchanged", "unchanged", MOST_AGAIN),
    ):
        start, processors = time.monotonic(), seconds_of(roots) + _of_commands()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        seconds, processors = time.monotonic() - start, seconds_of(roots) + _of_commands() - processors
        if done.returncode or json.loads(done.stdout)["outcome"] != outcome:
            raise SystemExit(f"{name}: {(done.stderr or done.stdout)[-1000:]}")
        at_most(name, processors, "s", most)
        at_most(f"{name}-by-wall-clock", seconds, "s", most)


def _of_commands() -> float:
    """Return the processor seconds of the commands that were run and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Bring a NetBox up, measure, and leave nothing behind."""
    with ExitStack() as stack:
        places, postgres, netbox = plain_netbox("nodes", stack)
        netbox.start(workers=1, queue=False)
        roots = [child.process.pid for child in (*netbox.children, postgres.child) if child.process]
        measure(netbox, roots, places.state)


if __name__ == "__main__":
    main()
