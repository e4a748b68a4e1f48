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

from benchmarks.plain_netbox import plain_netbox
from benchmarks.verdict import at_most
from fleet_lab.services.netbox import NetBox

MACHINES = 10_000
REPORTS = 1_000
CALLS = 7
MOST_FACTOR, MOST_FULL, MOST_UNCHANGED, MOST_REPORTS = 1.5, 60, 0.2, 10
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

_FILL = """
import sys, uuid
from django.core.management import call_command
from django.utils import timezone
from core.models import ObjectChange, ObjectType
from dcim.models import Device, DeviceRole, DeviceType, Interface, MACAddress, Manufacturer, Site
from ipam.models import IPAddress, Prefix
from users.models import Token, User
from netbox_fleet import models as fleet

COUNT = {count}
now = timezone.now()
site = Site.objects.create(name="Bench", slug="bench")
maker = Manufacturer.objects.create(name="Acme", slug="acme")
kind = DeviceType.objects.create(manufacturer=maker, model="Box", slug="box")
role = DeviceRole.objects.create(name="Node", slug="node")
made = fleet.MachineClass.objects.create(slug="bench", family="alpine-image", installable=True)
Prefix.objects.create(prefix="10.0.0.0/8", custom_field_data={{"gateway": "10.0.0.1"}})
devices = Device.objects.bulk_create(
    [Device(name=f"node-{{n:05}}", site=site, device_type=kind, role=role, status="active", serial=f"SN{{n}}") for n in range(COUNT)], 1000
)
ports = Interface.objects.bulk_create(
    [Interface(device=device, name="eth0", type="1000base-t", _site=site) for device in devices], 1000
)
MACAddress.objects.bulk_create(
    [MACAddress(mac_address=f"52:54:00:{{n >> 16:02x}}:{{n >> 8 & 255:02x}}:{{n & 255:02x}}", assigned_object=port) for n, port in enumerate(ports)], 1000
)
IPAddress.objects.bulk_create(
    [IPAddress(address=f"10.{{n >> 16}}.{{n >> 8 & 255}}.{{n & 255}}/8", assigned_object=port, status="active") for n, port in enumerate(ports)], 1000
)
days = {{(now - timezone.timedelta(days=back)).date().isoformat(): 0xFFFFFF for back in range(30)}}
machines = fleet.Machine.objects.bulk_create(
    [
        fleet.Machine(
            device=device, node_name=device.name, machine_class=made, disk_serial=f"disk{{n}}", phase="active", check_result="ok",
            last_check=now, last_seen=now, phase_since=now, check_days=days, message="The installed system proved itself.",
        )
        for n, device in enumerate(devices)
    ], 1000
)
words = [uuid.uuid4().hex for _ in machines]
pairs = list(zip(machines, words))
fleet.EndorsementKey.objects.bulk_create(
    [fleet.EndorsementKey(machine=m, public_hash=w * 2, status="approved", decided_by="anna", decided_at=now) for m, w in pairs], 1000
)
runs = fleet.Run.objects.bulk_create(
    [fleet.Run(run_id=uuid.uuid4(), machine=m, machine_name=m.node_name, kind="provision", state="succeeded", started=now, ended=now) for m in machines], 1000
)
fleet.Attestation.objects.bulk_create(
    [fleet.Attestation(attestation_id=uuid.uuid4(), machine=m, machine_name=m.node_name, run=r, passed=True, time=now) for m, r in zip(machines, runs)], 1000
)
fleet.DeviceCertificate.objects.bulk_create(
    [fleet.DeviceCertificate(machine=m, machine_name=m.node_name, kind="ldevid", serial=w, fingerprint=w * 2, not_before=now, not_after=now) for m, w in pairs], 1000
)
fleet.BootCheck.objects.bulk_create([fleet.BootCheck(machine=m, time=now, result="ok") for m in machines], 1000)
fleet.Baseline.objects.bulk_create([fleet.Baseline(machine=m, digest=w, state="accepted", time=now) for m, w in pairs], 1000)
fleet.Statement.objects.bulk_create(
    [fleet.Statement(statement_id=uuid.uuid4(), machine=m, machine_name=m.node_name, kind="release", by="anna", reason="x", time=now, state="taken") for m in machines], 1000
)
owner = User.objects.create(username="owner", is_superuser=True)
owner.set_password({password!r})
owner.save()
type_ = ObjectType.objects.get_for_model(fleet.Machine)
ObjectChange.objects.bulk_create(
    [ObjectChange(user=owner, user_name="owner", request_id=uuid.uuid4(), action="create", changed_object_type=type_, changed_object_id=m.pk, object_repr=m.node_name) for m in machines], 1000
)
ObjectChange.objects.update(time=now - timezone.timedelta(hours=1))
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
print("MACHINES", machines[0].pk)
print("SERVICE ", end="")
call_command("fleet_service_account", "--quiet", stdout=sys.stdout)
"""


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


def main() -> None:
    """Bring a NetBox up, fill it, measure, and leave nothing behind."""
    with ExitStack() as stack:
        _, _, netbox = plain_netbox("plugin", stack)
        password = os.urandom(12).hex()
        netbox.manage("collectstatic", "--no-input", "-v", "0")
        printed = netbox.shell(_FILL.format(count=MACHINES, password=password))
        words = dict(
            line.split(maxsplit=1) for line in printed.splitlines() if line.startswith(("MACHINES ", "SERVICE "))
        )
        netbox.start(workers=2, queue=False)
        measure_service(Service(netbox, words["SERVICE"].strip()), int(words["MACHINES"]))
        measure_lists(netbox, password)


if __name__ == "__main__":
    main()
