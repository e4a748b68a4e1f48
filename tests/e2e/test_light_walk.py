"""One machine after another goes from a wish in NetBox to active, or fails in words and with nothing erased."""

import json
import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import redis
import requests

from fleet_lab.demo.walk import WalkFailedError, value_of
from fleet_lab.places import LabError
from tests.e2e.life import Life

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_machine_goes_from_a_wish_to_active_and_its_first_check_passes(fleet):
    spec, machine = fleet.plug_in()

    arrived = fleet.walk(machine, spec.disk_serial).provision()

    assert value_of(arrived["phase"]) == "active"
    device = fleet.lab.owner.get(f"dcim/devices/{arrived['device']['id']}/")
    assert value_of(device["status"]) == "active"
    certificates = fleet.lab.owner.get("plugins/fleet/device-certificates/", machine_id=machine)["results"]
    assert {value_of(certificate["kind"]) for certificate in certificates} == {"ldevid", "lak"}
    run = fleet.lab.owner.get("plugins/fleet/runs/", machine_id=machine)["results"][0]
    assert value_of(run["state"]) == "succeeded"
    assert fleet.lab.tinkerbell.objects("tinkerbell.org", "workflows") == [] or not any(
        workflow["metadata"]["labels"]["fleet/machine"] == str(machine)
        for workflow in fleet.lab.tinkerbell.objects("tinkerbell.org", "workflows")
    )
    assert not any(netboot_allowed(hardware) for hardware in hardware_of(fleet, machine))


def hardware_of(fleet, machine):
    every = fleet.lab.tinkerbell.objects("tinkerbell.org", "hardware")
    return [hardware for hardware in every if hardware["metadata"]["name"] == f"fleet-{machine}"]


def netboot_allowed(hardware):
    return any(interface.get("netboot", {}).get("allowPXE") for interface in hardware["spec"]["interfaces"])


def test_a_wrong_serial_in_the_form_is_refused_by_netbox(fleet):
    _, machine = fleet.plug_in()

    with pytest.raises(LabError, match="400"):
        fleet.lab.owner.ask(machine, "provision", "not-this-disk")

    assert not value_of(fleet.lab.owner.machine(machine)["desired_action"])


def test_a_serial_that_no_disk_of_the_machine_has_fails_the_run_and_erases_nothing(fleet):
    spec, machine = fleet.plug_in(disk_serial="another-disk")
    disk = fleet.lab.places.state / spec.name / "disk.img"
    disk.open("r+b").write(b"the owner's data")

    with pytest.raises(WalkFailedError, match=r"(?i)disk"):
        fleet.walk(machine, "another-disk").provision()

    assert disk.open("rb").read(16) == b"the owner's data"


def test_an_image_with_another_hash_fails_the_run_and_leaves_no_bootable_disk(fleet):
    spec, machine = fleet.plug_in("lab-broken-image")

    with pytest.raises(WalkFailedError, match=r"(?i)sha-?256|hash"):
        fleet.walk(machine, spec.disk_serial).provision()

    disk = fleet.lab.places.state / spec.name / "disk.img"
    assert disk.open("rb").read(1 << 20) == bytes(1 << 20)


def test_a_key_that_nobody_approves_waits_and_an_approval_after_a_restart_goes_on(fleet):
    spec, machine = fleet.plug_in()
    walk = fleet.walk(machine, spec.disk_serial)
    walk.ask()
    while not fleet.lab.owner.pending_keys(machine):
        assert value_of(fleet.lab.owner.machine(machine)["phase"]) != "failed"

    disk = fleet.lab.places.state / spec.name / "disk.img"
    assert disk.stat().st_blocks == 0, "nothing is written before a person approved the key"
    fleet.lab.fleetd.kill()
    fleet.lab.fleetd.start()

    assert value_of(walk.follow()["phase"]) == "active"


def test_a_key_that_is_rejected_ends_the_run_and_one_approved_after_all_lets_the_machine_in(fleet):
    life, owner = Life.of(fleet), fleet.lab.owner

    def reject():
        for key in owner.pending_keys(life.machine):
            owner.post(f"plugins/fleet/endorsement-keys/{key['id']}/reject/", {"reason": "not this one"})

    asked = life.wish("provision")
    life.until(lambda: reject() or life.shown["intent_id"] != asked, "is told that its key was rejected")

    assert [value_of(run["state"]) for run in life.runs()] == ["failed"]
    assert [finding["code"] for finding in life.shown["findings"]] == ["ek-rejected"]
    assert life.ran()["erase"] == 0
    life.left_nothing()

    for key in owner.get("plugins/fleet/endorsement-keys/", machine_id=life.machine, status="rejected")["results"]:
        owner.approve(key["id"], life.machine)
    life.ask("provision")
    life.checked()


def test_a_flushed_broker_loses_nothing(fleet):
    spec, machine = fleet.plug_in()

    def flush(_):
        redis.Redis.from_url(fleet.lab.valkey.url(5)).flushdb()

    arrived = fleet.walk(machine, spec.disk_serial, flush).provision()

    assert value_of(arrived["phase"]) == "active"


def test_no_secret_is_in_netbox_workflows_logs_or_metrics(fleet):
    spec, machine = fleet.plug_in()
    fleet.walk(machine, spec.disk_serial).provision()
    lab = fleet.lab
    secrets = {
        "broker's password": lab.valkey.password,
        "service account's token": (lab.fleetd.folder / "netbox.token").read_text(),
        "webhook secret": (lab.fleetd.folder / "webhook.secret").read_text(),
        "server key": (lab.fleetd.folder / "server.key").read_bytes().hex(),
        **{f"key {file.name}": pem_line(file) for file in (lab.fleetd.folder / "ca").glob("*.key")},
        **{f"BMC password of {name}": bmc.password for name, bmc in lab.bmcs.items()},
    }
    ticket = next((lab.places.state / spec.name).rglob("seed*.json"), None)
    if ticket is not None:
        state = json.loads(ticket.read_text())
        secrets |= {f"seed {name}": state[name] for name in ("ticket",) if isinstance(state.get(name), str)}
    outputs = {
        "NetBox's database": lab.postgres.run("pg_dump", "netbox").stdout,
        "fleetd's database": lab.postgres.run("pg_dump", "fleetd").stdout,
        "Workflows": json.dumps(lab.tinkerbell.objects("tinkerbell.org", "workflows")),
        "Hardware": json.dumps(lab.tinkerbell.objects("tinkerbell.org", "hardware")),
        "metrics": requests.get(f"http://127.0.0.1:{lab.fleetd.inside_port}/metrics", timeout=30).text,
        **{str(log): log.read_text(errors="replace") for log in logs(lab.places.state)},
    }

    assert len(secrets) > 8
    found = [(name, where) for name, secret in secrets.items() for where, text in outputs.items() if secret in text]
    # NetBox signs its webhooks with this one, so it keeps it, and it alone.
    assert found == [("webhook secret", "NetBox's database")]


def pem_line(file: Path) -> str:
    return file.read_text().splitlines()[1]


def logs(folder: Path):
    return [file for pattern in ("*.log", "fleetd/*.log", "*/console.log") for file in folder.glob(pattern)]


AT_ONCE = [6, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize("many", AT_ONCE)
def test_many_machines_provisioned_at_once_end_active_and_none_is_erased_twice(fleet, many, record_property):
    lives = [Life.of(fleet) for _ in range(many)]
    before = processor_seconds(fleet.lab.fleetd)
    for life in lives:
        life.wish("provision")

    shown, news, deadline = [], [], 0.0
    while not all(value_of(each["check_result"]) == "ok" for each in shown or [{"check_result": None}]):
        approve_what_waits(fleet.lab.owner, many)
        shown = machines_of(fleet.lab.owner, lives)
        assert not [each["message"] for each in shown if value_of(each["phase"]) == "failed"]
        told = Counter(f"{value_of(each['phase'])}: {each['message']} {each['percent']}" for each in shown)
        if told != news:
            news, deadline = told, time.monotonic() + 600
        assert time.monotonic() < deadline, f"no news for 600 s: {told}"
        time.sleep(3)

    spent = processor_seconds(fleet.lab.fleetd) - before
    record_property("fleetd's processor seconds for each machine", round(spent / many, 2))
    for life in lives:
        assert life.ran()["erase"] == 1
    for life in lives:
        life.left_nothing()


def approve_what_waits(owner, many):
    for key in owner.get("plugins/fleet/endorsement-keys/", status="pending", limit=many)["results"]:
        owner.approve(key["id"], key["machine"]["id"])


def machines_of(owner, lives):
    mine = {life.machine for life in lives}
    return [each for each in owner.get("plugins/fleet/machines/", limit=1000)["results"] if each["id"] in mine]


def processor_seconds(fleetd):
    """What fleetd's processes have used since they were started, in seconds of one core."""
    sessions = {child.process.pid for child in fleetd.children.values()}
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) in sessions:
                ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_netbox_serves_its_login_page_and_its_style_sheets(fleet):
    page = requests.get(fleet.lab.netbox.url + "/login/", timeout=30).text
    sheet = next(part.split('"')[0] for part in page.split('href="')[1:] if ".css" in part)

    assert "Log In" in page
    assert requests.get(fleet.lab.netbox.url + sheet, timeout=30).status_code == 200
