"""Machines that are not as one wishes: BMCs that depart from Redfish, or none, and parts that were exchanged."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet_lab.bmc_quirks import BootDeviceLostOnReset, BootDeviceOnlyWhileOff, ReportsLate
from fleet_lab.classes import lab_light
from fleet_lab.demo.walk import value_of
from fleet_lab.images.cache import image_cache
from fleet_lab.images.light import build_light
from tests.e2e.life import Life

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

QUIRKS = {
    "lab-picky-bmc": {"off_before_boot_device": True},
    "lab-forgetful-bmc": {"boot_device_lost_on_reset": True},
    "lab-late-bmc": {"report_delay": 10},
}
NETBOOT = 180.0
"""Seconds until a silent machine has failed; a third of it until one whose BMC forgets is started again."""


def half_of(light, folder):
    """The image's first half, served as if it were all of it."""
    whole = build_light(image_cache()).path.read_bytes()
    half = folder / "half.img.zst"
    half.write_bytes(whole[: len(whole) // 2])
    light.images.add_image(half.name, half)
    return {**light.image.field(light.server), "url": f"{light.server}/images/{half.name}"}


def classes(light, folder):
    def a_class(name, **more):
        return {**lab_light(light.image, light.server, name=name), **more}

    uefi = {"uefi": True, "bmc": "required"}
    return [
        *(
            a_class(name, boot={**uefi, "quirks": quirks}, deadlines={"netboot": NETBOOT})
            for name, quirks in QUIRKS.items()
        ),
        a_class("lab-no-bmc", boot={**uefi, "bmc": "optional"}),
        a_class("lab-half-image", image=half_of(light, folder)),
    ]


@pytest.fixture(scope="module")
def fleet(make_fleet, tmp_path_factory):
    """A lab whose machines are asked for their power state after 5 s of silence."""
    folder = tmp_path_factory.mktemp("images")
    return make_fleet(classes=lambda light: classes(light, folder), waits={"silence": 5.0})


def machine_of(life):
    return life.lab.machines[life.spec.name]


def console_of(life):
    return machine_of(life).console.read_text()


def boots(life):
    return [
        line.split(" (", 1)[0].split(" boots from ")[1] for line in console_of(life).splitlines() if " boots " in line
    ]


# --- BMCs ---


def test_machines_whose_bmcs_have_the_quirk_that_their_class_names_arrive(fleet):
    ports = {}

    def kept(name, make):
        def port(machine):
            ports[name] = make(machine)
            return ports[name]

        return port

    picky = Life.of(fleet, "lab-picky-bmc", port=kept("picky", BootDeviceOnlyWhileOff))
    forgetful = Life.of(fleet, "lab-forgetful-bmc", port=kept("forgetful", BootDeviceLostOnReset))
    late = Life.of(fleet, "lab-late-bmc", port=kept("late", ReportsLate))
    machine_of(picky).on()
    lives = [picky, forgetful, late]

    def provisioned(life):
        life.ask("provision")
        life.checked()

    with ThreadPoolExecutor(len(lives)) as owners:
        for arrived in [owners.submit(provisioned, life) for life in lives]:
            arrived.result()

    assert [life.phase for life in lives] == ["active"] * 3
    assert ports["picky"].forgotten == 0, "it was given a boot device while it was on"
    hookos = f"the network as fleet-{forgetful.machine}"
    assert boots(forgetful) == ["its disk", hookos, "its disk"], "the boot device was not lost, or not set again"
    assert boots(late) == [f"the network as fleet-{late.machine}", "its disk"], "an old power state was believed"
    for life in lives:
        assert life.ran()["erase"] == 1
        life.left_nothing()


def test_a_machine_without_a_bmc_waits_for_a_person_and_reboots_by_itself(fleet):
    life = Life.of(fleet, "lab-no-bmc", bmc=False)
    pressed = []

    def press_the_button():
        said = life.shown["message"]
        if not pressed and any(words in said for words in ("person to start the machine", "Start it by hand")):
            pressed.append(said)
            machine_of(life).off()
            machine_of(life).on()

    life.ask("provision", note=press_the_button)
    life.checked()

    assert pressed, "nobody was asked to start the machine"
    assert boots(life) == [f"the network as fleet-{life.machine}", "its disk"]
    pressed.clear()
    vouched = []

    def press_and_vouch():
        press_the_button()
        if not vouched and "a person must say that it is off" in str(life.shown):
            machine_of(life).off()
            vouched.append(True)
            reason = ("--reason", "its lamp is dark")
            life.lab.fleetd.command("machines", "vouch", life.spec.name, "--power-off", *reason)

    life.decommission(press_and_vouch)

    assert (life.phase, bool(pressed), bool(vouched)) == ("retired", True, True)
    assert life.ran()["erase"] == 2
    life.left_nothing()


# --- exchanged parts ---


def test_an_update_of_the_firmware_shows_as_a_difference_that_a_person_accepts(fleet):
    life = Life.of(fleet)
    life.ask("provision")
    life.checked()
    before = baselines(life)
    assert [value_of(each["state"]) for each in before] == ["accepted"]

    rebooted_after(life, lambda machine: machine.flash("FleetLab light 2"))

    life.drifted()
    (offered,) = [each for each in baselines(life) if value_of(each["state"]) == "offered"]
    assert "FleetLab light 2" in json.dumps(offered["difference"]), offered
    assert life.phase == "active", "a difference alone stops nothing"
    life.lab.owner.post(f"plugins/fleet/baselines/{offered['id']}/accept/", {"reason": "the update of this night"})
    life.checked()
    assert [value_of(each["state"]) for each in baselines(life)] == ["accepted", "superseded"]


def test_a_swapped_tpm_proves_nothing_and_an_approval_by_mistake_quarantines_the_machine(fleet):
    life = Life.of(fleet)
    life.ask("provision")
    life.checked()
    certificates = certificates_of(life)

    rebooted_after(life, lambda machine: machine.swap_tpm())
    life.until(lambda: value_of(life.shown["check_result"]) == "late", "misses its check")
    life.wish("attest", reboot=True)
    life.until(lambda: bool(life.lab.owner.pending_keys(life.machine)), "shows its other keys")
    assert life.phase == "waiting"
    assert certificates_of(life) == certificates, "an unknown TPM got a certificate"
    for key in life.lab.owner.pending_keys(life.machine):
        life.lab.owner.approve(key["id"], life.machine)
    life.until(lambda: life.phase == "quarantined", "is quarantined")

    assert certificates_of(life) == certificates
    assert life.ran()["erase"] == 1


def test_an_image_server_that_ends_early_fails_the_run_and_leaves_no_bootable_disk(fleet):
    life = Life.of(fleet, "lab-half-image")

    failed = life.ask("provision", ends="failed")

    assert "image" in failed["error"].lower(), failed
    with machine_of(life).disk.open("rb") as disk:
        disk.seek(512)
        assert disk.read(8) != b"EFI PART"
    life.until(lambda: not life.workflows(), "is tidied up after")
    life.left_nothing()


def certificates_of(life):
    shown = life.lab.owner.get("plugins/fleet/device-certificates/", machine_id=life.machine)["results"]
    return {each["fingerprint"] for each in shown}


def rebooted_after(life, change):
    machine = machine_of(life)
    machine.off()
    change(machine)
    machine.on()


def baselines(life):
    return life.lab.owner.get("plugins/fleet/baselines/", machine_id=life.machine)["results"]
