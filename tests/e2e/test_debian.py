"""A Debian whose own cloud-init applies the seed: installed on a UEFI machine in QEMU, it checks itself every hour."""

import dataclasses
import os
import re
import time
from contextlib import ExitStack

import pytest

from fleet_lab.bringup import Tuning, bring_up, clean, machine_spec, owner_enters, start_services
from fleet_lab.classes import Image, lab_cloud_init
from fleet_lab.demo.prepare import CLOUD_INIT, Built, qemu_machine, serve_images
from fleet_lab.demo.walk import Walk, value_of
from fleet_lab.images.action import build_action_image
from fleet_lab.images.cache import image_cache
from fleet_lab.images.debian import build_debian
from fleet_lab.images.hookos import build_hookos
from fleet_lab.images.packages import this_host_suite
from fleet_lab.places import Places

pytestmark = [pytest.mark.slow, pytest.mark.qemu, pytest.mark.timeout(2700)]

ADDRESS = "10.0.2.15"
"""What NetBox says of the machine: the only address that QEMU's network knows a guest by."""


def built():
    cache, suite = image_cache(), this_host_suite()
    action, debian = build_action_image(cache, suite), build_debian(cache, suite)
    return Built(action, build_hookos(cache, suite, [action.digest]), debian, debian)


@pytest.fixture(scope="module")
def installed():
    """The machine after its first boot check, and all that its console said."""
    places, images = Places(f"debian-{os.getpid()}"), built()
    with ExitStack() as stack:
        stack.callback(clean, places)
        server = serve_images(images, stack)
        services = start_services(places, stack)
        machine_class = lab_cloud_init(Image.of(CLOUD_INIT, images.cloud_init), f"http://10.0.2.2:{server.port}")
        machine_class["seed"]["devid_folder"] = "/var/lib/spire/devid"
        intervals = {"sweep": 2.0, "poll": 1.0, "look": 1.0, "report": 1.0, "check": 600.0}
        reference = images.action.reference(f"10.0.2.2:{server.port}")
        lab = bring_up(services, [machine_class], action_image=reference, tuning=Tuning(intervals=intervals))
        stack.callback(lab.stop)
        spec = machine_spec(1, prefix="deb", disk_size=640 << 20)
        machine = qemu_machine(lab, spec, images, server.port)
        node = dataclasses.replace(lab.add(machine, "lab-cloud-init"), address=ADDRESS)
        number = owner_enters(lab, [node])[spec.name]
        arrived = Walk(lab.owner, number, spec.disk_serial, lambda *_: None, patience=600).provision()
        yield spec, arrived, first_boot(machine)


LAST_WORDS = (r"Cloud-init v\. \S+ finished", r"login:", r"fleet: Boot check: ok")
"""What comes at the end of a first boot, in no certain order."""


def first_boot(machine):
    """What the console said since the machine left HookOS, once all of the last words are there, or time is up."""
    deadline = time.monotonic() + 300
    while True:
        console = machine.console.read_text(errors="replace")
        said = console[console.rindex("boots from its disk") :]
        if time.monotonic() > deadline or all(re.search(words, said) for words in LAST_WORDS):
            return said
        time.sleep(0.5)


def test_real_cloud_init_applies_host_name_network_and_user_data_at_the_first_boot(installed):
    spec, _, console = installed

    assert re.search(
        r"Cloud-init v\. \S+ finished at .*DataSourceNoCloud \[seed=/var/lib/cloud/seed/nocloud\]", console
    )
    assert f"{spec.name} login:" in console
    assert re.search(rf"ci-info: \| +\S+ +\| True +\| +{re.escape(ADDRESS)} .*\| {spec.mac} \|", console)
    assert "schema.py[WARNING]" not in console


def test_the_machines_hourly_check_passes_from_a_systemd_timer(installed):
    _, arrived, console = installed

    assert (value_of(arrived["phase"]), value_of(arrived["check_result"])) == ("active", "ok")
    assert "Created symlink /etc/systemd/system/timers.target.wants/fleet-boot-check.timer" in console
    assert "The seed was here before the first boot" in console
    assert "fleet: Boot check: ok" in console
