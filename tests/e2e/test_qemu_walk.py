"""The life of a UEFI machine with a TPM in QEMU: measured HookOS, the real action image, a booting installation."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import pytest

from fleet_lab.bringup import clean, machine_spec, owner_enters
from fleet_lab.demo.__main__ import bring_up_demo
from fleet_lab.demo.screen import Screen
from fleet_lab.demo.walk import value_of
from fleet_lab.places import CHECKOUT, Places
from tests.e2e.life import Life

pytestmark = [pytest.mark.slow, pytest.mark.qemu, pytest.mark.timeout(2700)]

MIB = 1 << 20


@pytest.fixture(scope="module")
def demo():
    """The demo's lab, without its machines."""
    places = Places(f"qemu-{os.getpid()}")
    with ExitStack() as stack:
        stack.callback(clean, places)
        yield bring_up_demo(places, Screen(), stack, machines=0)


def test_a_whole_life_with_power_cuts_and_a_killed_fleetd_leaves_the_second_disk_alone_and_the_wiped_one_empty(demo):
    add_class(demo.lab, "lab-deep", disk={"min_size": 0, "erase": "deep"})
    spec = replace(machine_spec(4), other_disks=("keepsake",))
    machine, node = demo.plug_in(spec, "lab-deep")
    scribble(machine.disk)
    life = Life(demo.lab, spec, owner_enters(demo.lab, [node])[spec.name])
    keepsake = machine.disk.with_name("keepsake.img")
    scribble(keepsake)
    before = digest(keepsake)

    killed = []

    def kill_once():
        if not killed and life.phase == "installing":
            demo.lab.fleetd.kill()
            demo.lab.fleetd.start()
            killed.append(life.phase)

    cuts = in_the_middle(machine, demo.built.alpine.size)
    with power_cuts(machine, cuts) as cut:
        life.ask("provision", note=kill_once)
        life.checked()
    assert [each.action for each in cut] == ["erase", "write-image", "configure"], "the power was not cut everywhere"
    assert all(each.unfinished for each in cut), f"the power was cut after the end: {cut}"
    assert killed, "fleetd was not killed on the way"

    life.ask("attest")
    assert life.phase == "active"

    machine.off()
    machine.swap_disk("a-stranger")
    machine.disk.open("r+b").write(b"what the new disk's owner wants to keep")
    stranger = digest(machine.disk)
    failed = life.ask("provision", ends="failed")
    assert "disk" in failed["error"].lower(), failed
    assert digest(machine.disk) == stranger
    assert digest(keepsake) == before
    attested = demo.lab.owner.get("plugins/fleet/attestations/", machine_id=life.machine)["results"]
    assert any(value_of(seen["policy"]) == "judged" for seen in attested)
    machine.off()
    machine.swap_disk(spec.disk_serial)

    life.ask("wipe")
    assert life.phase == "wiped"
    assert not machine.is_on()
    assert is_zero(machine.disk)

    asked = []

    def vouch():
        if not asked and "keepsake" in life.shown["message"]:
            asked.append(life.shown["message"])
            demo.lab.fleetd.command("machines", "vouch", spec.name, "--disk", "keepsake", "--reason", "it stays ours")

    life.decommission(vouch)
    assert life.phase == "retired"
    assert asked, "nobody was asked about the disk that was not declared"
    assert digest(keepsake) == before
    life.left_nothing()


def test_an_nvme_disk_is_wiped_by_its_own_format_and_the_record_says_so(demo):
    lab = demo.lab
    add_class(lab, "lab-nvme", disk={"min_size": 0, "erase": "deep", "fallback": ["format"]})
    spec = replace(machine_spec(5), disk_bus="nvme")
    machine, node = demo.plug_in(spec, "lab-nvme")
    scribble(machine.disk)
    life = Life(lab, spec, owner_enters(lab, [node])[spec.name])

    run = life.ask("wipe")

    assert is_zero(machine.disk)
    (record,) = run["evidence"]["records"]
    disk = json.loads(payload(record["jws"]))["disk"]
    assert (disk["serial"], disk["method"], disk["result"]) == (spec.disk_serial, "format", "erased")
    assert disk["samples"] >= 1024


def add_class(lab, name, **changed):
    """Describe one more class in fleetd's file, which is read again by itself, and wait until NetBox knows it."""
    file = lab.fleetd.folder / "classes.json"
    book = json.loads(file.read_text())
    book["classes"].append({**book["classes"][0], "name": name, **changed})
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(book))
    beside.rename(file)
    deadline = time.monotonic() + 120
    while lab.owner.only("plugins/fleet/machine-classes/", slug=name) is None:
        assert time.monotonic() < deadline, f"fleetd never reported {name}"
        time.sleep(0.5)


def payload(jws):
    """The payload of a JWS in compact form."""
    part = jws.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


SLOW = 24 * MIB
"""Bytes a second that a disk takes until the last power cut: what is under way is not over before it is seen."""


@dataclass(frozen=True)
class Cut:
    """The power is cut once `words` are on the console and `begun` is true; `to_do` tells then that work was left.

    `end` is what the console says when it is too late.
    """

    action: str
    words: str
    end: str
    begun: Callable[[], bool]
    to_do: Callable[[], bool]


@dataclass(frozen=True)
class Done:
    """One power cut, and whether it came in the middle."""

    action: str
    unfinished: bool


def in_the_middle(machine, image_size):
    """The middle of an erase (a quarter is zero, the end is not), of a write (the first partition is there, the table
    that starts the disk and the one that ends the image are not), and of the first boot (the seed was asked for)."""
    quarter = machine.spec.disk_size // 4 // STEP * STEP
    last = machine.spec.disk_size - STEP

    def at(place, size):
        with machine.disk.open("rb") as disk:
            disk.seek(place)
            return disk.read(size)

    return [
        Cut(
            "erase",
            "erase: fleetd gives leave",
            "erase: done",
            begun=lambda: not any(at(quarter, MIB)),
            to_do=lambda: any(at(last, MIB)),
        ),
        Cut(
            "write-image",
            "write-image: fleetd gives leave",
            "write-image: done",
            begun=lambda: at(MIB + 510, 2) == b"\x55\xaa",
            to_do=lambda: at(512, 8) != b"EFI PART" and at(image_size - 512, 8) != b"EFI PART",
        ),
        Cut("configure", "Asking https", "The seed of", begun=lambda: True, to_do=lambda: at(512, 8) == b"EFI PART"),
    ]


@contextmanager
def power_cuts(machine, cuts):
    """Cut the power once in the middle of each, in their order, and press the button again."""
    done, stop = [], threading.Event()

    def watch():
        with machine.console.open(errors="replace") as console:
            said = ""
            while len(done) < len(cuts) and not stop.wait(0.02):
                said += console.read()
                cut = cuts[len(done)]
                if cut.words not in said or not cut.begun():
                    continue
                machine.off()
                said += console.read()
                done.append(Done(cut.action, cut.end not in said and cut.to_do()))
                machine.write_rate = SLOW if len(done) < len(cuts) - 1 else None
                time.sleep(1)
                machine.on()
                said = ""

    machine.console.touch()
    machine.write_rate = SLOW
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield done
    finally:
        stop.set()
        watcher.join()


STEP = 32 * MIB


def scribble(file):
    """Write something that nobody else has to a MiB of each 32, the end included."""
    with file.open("r+b") as disk:
        for place in range(0, file.stat().st_size, STEP):
            disk.seek(place)
            disk.write(os.urandom(MIB))


def digest(file):
    with file.open("rb") as disk:
        return hashlib.file_digest(disk, "sha256").hexdigest()


def is_zero(file):
    with file.open("rb") as disk:
        return all(not any(block) for block in iter(lambda: disk.read(MIB), b""))


def test_the_demo_refuses_an_option_that_it_does_not_know():
    done = subprocess.run(
        [sys.executable, "-m", "fleet_lab.demo", "--nonsense"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        check=False,
    )

    assert done.returncode == 2
    assert "unrecognized arguments" in done.stderr
