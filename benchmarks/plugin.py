"""The plugin with 10,000 machines in a real NetBox: its lists beside core's Device list, the feed, and reports.

Rows are made in bulk, and the change log is as long as if each had been entered. What is timed is the whole answer of the
web server to a client on the same host: the median of some calls for lists, one read for the feed. Both lists of a
comparison are asked for in turn, in one run, with the columns that a new user sees.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import requests

from benchmarks.filled_netbox import filled
from benchmarks.plain_netbox import plain_netbox
from benchmarks.verdict import at_most
from fleet_lab.services.netbox import NetBox
from fleet_lab.services.postgres import Postgres

MACHINES = 10_000
REPORTS = 1_000
CALLS = 7
MOST_FACTOR, MOST_FULL, MOST_UNCHANGED, MOST_REPORTS, MOST_ROWS = 1.5, 60, 0.2, 10, 32
PAGES = {
    "machine": "machines",
    "run": "runs",
    "attestation": "attestations",
    "device-certificate": "device-certificates",
    "endorsement-key": "endorsement-keys",
    "boot-check": "boot-checks",
    "baseline": "baselines",
    "statement": "statements",
}


def median(call: Callable[[], Any]) -> float:
    """Return the median of the seconds that some calls take, after one that warms caches."""
    call()
    taken = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def reader(netbox: NetBox, password: str) -> Callable[[str], None]:
    """Return what reads a page as a signed-in owner's browser does."""
    session = requests.Session()
    form = session.get(f"{netbox.url}/login/", timeout=60)
    token = session.cookies.get("csrftoken") or ""
    form.raise_for_status()
    body = {"username": "owner", "password": password, "csrfmiddlewaretoken": token}
    session.post(f"{netbox.url}/login/", body, headers={"Referer": netbox.url}, timeout=60).raise_for_status()

    def read(path: str) -> None:
        answer = session.get(netbox.url + path, timeout=120)
        if answer.status_code != requests.codes.ok or "/login/" in answer.url:
            raise SystemExit(f"{path}: {answer.status_code}")

    return read


def measure_lists(netbox: NetBox, password: str) -> None:
    """Print the time of each list as a multiple of that of core's Device list."""
    read = reader(netbox, password)
    for name, path in PAGES.items():
        core = median(lambda: read("/dcim/devices/?per_page=50"))
        ours = median(lambda path=path: read(f"/plugins/fleet/{path}/?per_page=50"))
        at_most(f"list-{name}s-10000-of-device-list", ours / core, "x", MOST_FACTOR)
    fleet = "&include_columns=fleet_phase,fleet_trust,fleet_last_check"
    core = median(lambda: read("/dcim/devices/?per_page=50"))
    at_most(
        "device-list-fleet-columns", median(lambda: read(f"/dcim/devices/?per_page=50{fleet}")) / core, "x", MOST_FACTOR
    )


class Service:
    """What fleetd does: reads the feed and posts reports, with its own account."""

    def __init__(self, netbox: NetBox, token: str) -> None:
        self._base = f"{netbox.url}/api/plugins/fleet"
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"

    def feed(self, cursor: str = "") -> tuple[str, int]:
        """Read on from the cursor to the end; return the new cursor and how many records came."""
        count = 0
        while True:
            query = {"limit": 500, **({"cursor": cursor} if cursor else {})}
            answer = self._session.get(f"{self._base}/declarations/", params=query, timeout=120)
            answer.raise_for_status()
            page = answer.json()
            cursor, count = page["cursor"], count + len(page["results"])
            if not page["more"]:
                return cursor, count

    def report(self, reports: list[dict[str, Any]]) -> None:
        """Post a body of reports, all of which must be accepted."""
        answer = self._session.post(f"{self._base}/reports/", json={"reports": reports}, timeout=300)
        answer.raise_for_status()
        if answer.json()["accepted"] != len(reports):
            raise SystemExit(f"reports: {answer.text[:1000]}")


def measure_service(service: Service, first: int) -> None:
    """Print a full read, an unchanged poll, and the two bodies of reports that fleetd sends most."""
    begun = time.perf_counter()
    cursor, count = service.feed()
    at_most("declarations-full-10000", time.perf_counter() - begun, "s", MOST_FULL)
    if count != MACHINES:
        raise SystemExit(f"the feed told of {count} machines")
    at_most("declarations-unchanged", median(lambda: service.feed(cursor)), "s", MOST_UNCHANGED)
    ids = range(first, first + REPORTS)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    check = {"last_check": now, "last_seen": now, "check_result": "ok", "check_days": {now[:10]: 1}}
    step = {
        "phase": "erasing",
        "since": now,
        "deadline": now,
        "percent": 40,
        "message": "Erasing the disk.",
        "findings": [],
        "run": {"id": "", "kind": "wipe", "requester": "anna", "state": "erasing", "percent": 40, "started": now},
        "statements": [],
    }
    for seq, (name, row) in enumerate({"checks": check, "runs": step}.items(), 1):
        bodies = [{"machine_id": pk, "seq": seq, **row} for pk in ids]
        for body in bodies:
            if "run" in body:
                body["run"] = body["run"] | {"id": f"00000000-0000-4000-8000-{body['machine_id']:012x}"}
        begun = time.perf_counter()
        service.report(bodies)
        at_most(f"reports-1000-{name}", time.perf_counter() - begun, "s", MOST_REPORTS)


def size_of(postgres: Postgres, netbox: NetBox) -> int:
    """Return the bytes of NetBox's database."""
    return int(postgres.sql(f"select pg_database_size('{netbox.database}')"))


def main() -> None:
    """Bring a NetBox up, fill it, measure, and leave nothing behind."""
    with ExitStack() as stack:
        _, postgres, netbox = plain_netbox("plugin", stack)
        password = os.urandom(12).hex()
        netbox.manage("collectstatic", "--no-input", "-v", "0")
        before = size_of(postgres, netbox)
        first = filled(netbox, MACHINES, password)
        at_most("netbox-database-per-machine", (size_of(postgres, netbox) - before) / MACHINES / 1024, "KiB", MOST_ROWS)
        token = netbox.manage("fleet_service_account", "--quiet").strip()
        netbox.start(workers=2, queue=False)
        measure_service(Service(netbox, token), first)
        measure_lists(netbox, password)


if __name__ == "__main__":
    main()
