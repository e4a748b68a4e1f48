"""Every family goes from a wish to active, although the whole service host restarts between install and first boot."""

import json
import os
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count

import pytest
import yaml

from fleet_lab.bringup import Tuning, bring_up, clean, machine_spec, owner_enters, start_services
from fleet_lab.classes import TALOS_SECRETS, lab_light
from fleet_lab.demo.walk import Walk, value_of
from fleet_lab.fleetd_service import secret_file
from fleet_lab.light_fleet import DISK, light_fleet
from fleet_lab.machine.installed import InstalledDisk
from fleet_lab.machine.machine import BootTarget
from fleet_lab.places import Places
from fleet_lab.services.postgres import start_postgres
from fleet_machine.disk import talos_meta
from fleet_machine.disk.partitions import partitions_of
from tests.talos import SCHEMA, a_bundle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NO_ACTION_IMAGE = "lab/none@sha256:" + "0" * 64
DEVID = "/etc/fleet/devid"
FAMILIES = ("alpine-image", "nixos-image", "cloud-init-nocloud", "talos")


@dataclass
class SlowFirmware:
    """Firmware that holds machines on their way to the disk until a test lets them go on."""

    reached: set[str] = field(default_factory=set)
    go_on: threading.Event = field(default_factory=threading.Event)

    def post(self, spec, target):
        if target is BootTarget.DISK:
            self.reached.add(spec.name)
            self.go_on.wait(600)


@dataclass
class Families:
    """The walk's machines by family, after the restart."""

    lab: object
    firmware: SlowFirmware
    machines: dict
    arrived: dict
    seen_before_restart: dict

    def folder(self, family):
        return self.lab.places.state / self.machines[family][0].name

    def console(self, family):
        return (self.folder(family) / "console.log").read_text()


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    places = Places(f"families-{os.getpid()}")
    firmware = SlowFirmware()
    with ExitStack() as stack:
        stack.callback(clean, places)
        services = start_services(places, stack)
        light = light_fleet(
            places.state / "light", stack, post=firmware.post, talos_schema=SCHEMA if SCHEMA.exists() else None
        )
        classes = [a_class(light, family) for family in FAMILIES]
        tuning = Tuning(intervals={"sweep": 1.0, "poll": 0.5, "look": 0.5, "report": 0.5, "check": 5.0, "lease": 20.0})
        lab = bring_up(services, classes, action_image=NO_ACTION_IMAGE, tuning=tuning)
        stack.callback(lab.stop)
        stack.callback(firmware.go_on.set)  # a machine that firmware holds cannot be switched off
        secret_file(lab.fleetd.folder / "secrets" / TALOS_SECRETS, yaml.safe_dump(a_bundle()))
        until(lambda: lab.owner.get("plugins/fleet/machine-classes/")["count"] == len(classes))
        machines = {}
        for family, number in zip(FAMILIES, count(1), strict=False):
            spec = machine_spec(number, prefix="fam", disk_size=DISK)
            node = lab.add(light.machine(lab, spec), f"lab-{family}")
            machines[family] = spec, owner_enters(lab, [node])[spec.name]
        yield walked(lab, firmware, machines, services, stack)


def a_class(light, family):
    image = light.talos if family == "talos" else light.image
    made = lab_light(image, light.server, name=f"lab-{family}", family=family, signature_key=light.signature_key)
    made.setdefault("seed", {})["devid_folder"] = DEVID
    return made


def walked(lab, firmware, machines, services, stack):
    walks = {
        family: Walk(
            lab.owner, machine, spec.disk_serial, lambda *_: None, pause=0.3, patience=240, checked=family != "talos"
        )
        for family, (spec, machine) in machines.items()
    }
    for walk in walks.values():
        walk.ask()
    names = {spec.name for spec, _ in machines.values()}
    until(lambda: approve(lab, machines) or firmware.reached >= names, 300)
    before = {family: value_of(lab.owner.machine(machine)["phase"]) for family, (_, machine) in machines.items()}
    restart_service_host(lab, services, stack)
    firmware.go_on.set()
    arrived = {family: walk.follow() for family, walk in walks.items()}
    return Families(lab, firmware, machines, arrived, before)


def approve(lab, machines):
    for _, machine in machines.values():
        for key in lab.owner.pending_keys(machine):
            lab.owner.approve(key["id"], machine)


def restart_service_host(lab, services, stack):
    """Cut the power of the service host: fleetd, PostgreSQL, Valkey, and NetBox, which shares them in the lab."""
    lab.fleetd.kill()
    lab.netbox.stop()
    services.postgres.kill()
    services.valkey.child.kill()
    stack.callback(start_postgres(services.places).stop)
    services.valkey.child.start()
    lab.netbox.start()
    lab.fleetd.start()


def until(true, seconds=90):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_restart_of_the_service_host_between_install_and_first_boot_loses_nothing(families, family):
    assert value_of(families.arrived[family]["phase"]) == "active"
    assert families.machines[family][0].name in families.firmware.reached
    _, machine = families.machines[family]
    run = families.lab.owner.get("plugins/fleet/runs/", machine_id=machine)["results"][0]
    assert value_of(run["state"]) == "succeeded"


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "cloud-init-nocloud"])
def test_these_families_were_not_active_before_their_first_boot(families, family):
    assert families.seen_before_restart[family] != "active"


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "talos"])
def test_the_installed_system_has_its_seed_and_passes_its_check(families, family):
    state = families.folder(family) / "state"
    seed = json.loads((state / "seed.json").read_text())
    spec, machine = families.machines[family]

    assert (seed["machine"], seed["hostname"], seed["class"]) == (machine, spec.name, f"lab-{family}")
    assert seed["addresses"][0]["address"].startswith(spec.address)
    assert seed["endpoints"]["fleetd"] == f"https://10.0.2.2:{families.lab.fleetd.port}"
    assert seed["certificates"]["ldevid"].startswith("-----BEGIN CERTIFICATE-----")
    assert value_of(families.arrived[family]["check_result"]) == "ok"


def test_a_nocloud_machine_needs_no_ticket(families):
    assert "cloud-init put its seed into place" in families.console("cloud-init-nocloud")
    assert "The seed was here before the first boot" in families.console("cloud-init-nocloud")


def test_talos_is_configured_by_its_code_once_and_keeps_the_configuration_in_state(families):
    spec, _ = families.machines["talos"]
    node = families.lab.machines[spec.name]
    assert f"is {spec.name}, configured from talos.config" in families.console("talos")

    node.off()
    node.boot_override(BootTarget.DISK, persistent=True)
    node.on()

    until(lambda: f"is {spec.name}, configured from STATE" in families.console("talos"))


def test_the_other_tags_of_meta_and_the_legacy_block_stay(families):
    spec, _ = families.machines["talos"]
    disk = InstalledDisk(spec, families.folder("talos") / "disk.img").disk
    (meta,) = [partition for partition in partitions_of(disk) if partition.label == "META"]
    with disk.path.open("rb") as opened:
        opened.seek(meta.start)
        content = opened.read(meta.size)

    tags = talos_meta.decode(content[: talos_meta.BLOCK])
    assert tags[talos_meta.BOOT_LOADER] == b"sd-boot"
    assert len(tags[talos_meta.DOWNLOAD_CODE]) >= 43
    assert content[: talos_meta.BLOCK] == content[talos_meta.BLOCK : 2 * talos_meta.BLOCK]
    assert content.endswith(b"legacy".ljust(512, b"\0"))
