"""The disk actions on files as disks, under a session, against a fleetd that gives or refuses leave."""

import datetime as dt
import io
import json
import os
import random
import sys
import tarfile
import time
from dataclasses import replace

import pytest

from fleet_machine.actions import run_action
from fleet_machine.enroll import connected
from fleet_machine.failure import FleetError
from fleet_machine.keys import SessionKey
from fleet_machine.reboot import DetachedReboot
from fleet_machine.runcalls import RunCalls
from fleet_machine.runfolder import RunFolder, Session
from fleet_machine.settings import RunSettings
from tests.integration.fleet_machine.fleetd_double import MACHINE, RUN, FleetdDouble, b64, digest, problem, stamp
from tests.integration.fleet_machine.image import (
    COMPRESSORS,
    ESP_START,
    META_START,
    MIB,
    ROOT_SIZE,
    ROOT_START,
    ImageServer,
    build_image,
    run,
)
from tests.integration.fleet_machine.surroundings import FileDisks, a_machine, file_disk

LEAVE, EVENTS = f"/v1/runs/{RUN}/leave", f"/v1/runs/{RUN}/events"
DISK_SIZE = 32 * MIB
ENROLLMENT = "0f0e0d0c-0b0a-0908-0706-050403020100"


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    return build_image(tmp_path_factory.mktemp("image") / "image.raw")


@pytest.fixture
def server():
    running = ImageServer()
    yield running
    running.close()


@pytest.fixture
def disk(tmp_path):
    """A used disk of 64 MiB: data everywhere."""
    made = file_disk(tmp_path / "disk", DISK_SIZE)
    made.path.write_bytes(random.Random(1).randbytes(MIB) * 32)
    return made


@pytest.fixture
def machine(tmp_path, fleetd, disk):
    """A machine that enrolled already."""
    made = a_machine(tmp_path, disks=[disk])
    fleetd.enrollment = ENROLLMENT
    RunFolder(made.run_folder).keep_session(
        Session(ENROLLMENT, RUN, MACHINE, "node-1", SessionKey(fleetd.session_key), None)
    )
    return made


@pytest.fixture
def do(fleetd, machine):
    """Runs an action on the declared disk."""

    def act(name, around=machine, **environment):
        return run_action(name, fleetd.environment(**{"FLEET_DISK_SERIAL": "disk1", **environment}), around)

    return act


def image_environment(server, image, compression="zstd", **more):
    server.files["image"] = COMPRESSORS[compression](image)
    return {
        "FLEET_IMAGE_URL": server.url("image"),
        "FLEET_IMAGE_SHA256": digest(image),
        "FLEET_IMAGE_SIZE": str(len(image)),
        **more,
    }


def last(fleetd):
    return fleetd.events[-1]


def told_once(fleetd):
    ends = [event["kind"] for event in fleetd.events if event["kind"] in ("finished", "failed")]
    return len(ends) == 1


# --- guard ---


def test_guard_finds_the_declared_disk_whatever_the_case_of_its_serial(do, fleetd):
    assert do("guard", FLEET_DISK_SIZE=str(DISK_SIZE)) == 0
    assert last(fleetd)["kind"] == "finished"
    assert last(fleetd)["data"]["serial"] == "DISK1"


def test_guard_names_all_disks_when_the_declared_one_is_not_there(do, fleetd):
    assert do("guard", FLEET_DISK_SERIAL="other") == 1
    assert last(fleetd)["kind"] == "failed"
    assert "No disk has the declared serial other. The machine shows: disk DISK1." in last(fleetd)["message"]


def test_guard_refuses_a_disk_that_is_too_small_for_its_class(do, fleetd):
    assert do("guard", FLEET_DISK_SIZE=str(DISK_SIZE + 1)) == 1
    assert "its class needs at least" in last(fleetd)["message"]


def test_guard_refuses_two_disks_with_one_serial(do, machine, disk, fleetd):
    machine.disks.known.append(replace(disk, name="second", path=disk.path.with_name("second")))

    assert do("guard") == 1
    assert "Several disks" in last(fleetd)["message"]


def test_guard_tells_equal_serials_apart_by_the_wwn(do, machine, disk, fleetd):
    machine.disks.known[:] = [replace(disk, wwn="naa.5000A"), replace(disk, wwn="naa.5000b", name="second")]

    assert do("guard", FLEET_DISK_WWN="0x5000a") == 0
    assert last(fleetd)["data"]["name"] == "disk"


def test_guard_refuses_a_disk_in_use(do, machine, disk, fleetd):
    machine.disks.known[:] = [replace(disk, in_use=("mounted at /",))]

    assert do("guard") == 1
    assert "mounted at /" in last(fleetd)["message"]


# --- leave ---


@pytest.mark.parametrize("action", ["erase", "write-image", "write-seed", "set-boot"])
def test_nothing_is_touched_without_leave(do, fleetd, disk, action, server, image):
    before = digest(disk.path.read_bytes())
    fleetd.script[LEAVE] = [problem(409, "the run was cancelled", stop=True)]

    status = do(action, FLEET_ERASE="deep", FLEET_FAMILY="alpine-image", **image_environment(server, image))

    assert status == 1
    assert "the run was cancelled" in last(fleetd)["message"]
    assert told_once(fleetd)
    assert digest(disk.path.read_bytes()) == before
    assert server.seen == []


def test_a_leave_that_comes_later_is_waited_for(do, fleetd, machine):
    fleetd.script[LEAVE] = [problem(409, "not yet", headers={"Retry-After": "9"})]

    assert do("erase", FLEET_ERASE="quick") == 0
    assert 9.0 in machine.clock.slept


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "ffffffff-4455-6677-8899-aabbccddeeff"},
        {"action": "write-image"},
        {"disk_serial": "disk2"},
        {"start_before": None},
    ],
)
def test_a_leave_for_something_else_is_no_leave(do, fleetd, disk, wrong):
    before = digest(disk.path.read_bytes())
    soon = stamp(fleetd.now() + dt.timedelta(minutes=5))
    leave = {"run": RUN, "action": "erase", "disk_serial": "disk1", "start_before": soon, **wrong}
    fleetd.script[LEAVE] = [lambda: fleetd.signed("fleet-leave+jwt", leave)]

    assert do("erase", FLEET_ERASE="deep") == 1
    assert digest(disk.path.read_bytes()) == before


def test_a_leave_that_is_too_old_is_no_leave(do, fleetd, disk):
    before = digest(disk.path.read_bytes())
    past = stamp(fleetd.now() - dt.timedelta(minutes=1))
    leave = {"run": RUN, "action": "erase", "disk_serial": "disk1", "start_before": past}
    fleetd.script[LEAVE] = [lambda: fleetd.signed("fleet-leave+jwt", leave)]

    assert do("erase", FLEET_ERASE="deep") == 1
    assert "too old" in last(fleetd)["message"]
    assert digest(disk.path.read_bytes()) == before


def test_a_leave_that_fleetd_did_not_sign_is_no_leave(do, fleetd, disk):
    before = digest(disk.path.read_bytes())
    fleetd.script[LEAVE] = [(200, {"jws": "e30.e30.e30"}, {})]

    assert do("erase", FLEET_ERASE="deep") == 1
    assert digest(disk.path.read_bytes()) == before


def test_an_unknown_session_is_replaced_by_a_new_enrollment(tmp_path, tpm, fleetd, disk):
    machine = a_machine(tmp_path, tpm.tcti, disks=[disk])
    run_action("enroll", fleetd.environment(), machine)
    fleetd.enrollment = "another"

    assert run_action("guard", fleetd.environment(FLEET_DISK_SERIAL="disk1"), machine) == 0
    assert "enrolling again" in machine.console


def test_an_action_after_a_power_cut_enrolls_by_itself(tmp_path, tpm, fleetd, disk):
    machine = a_machine(tmp_path, tpm.tcti, disks=[disk])

    assert run_action("erase", fleetd.environment(FLEET_DISK_SERIAL="disk1", FLEET_ERASE="quick"), machine) == 0
    assert [event["kind"] for event in fleetd.events if event["kind"] != "progress"] == ["started", "finished"]


# --- erase ---


def test_a_deep_erase_leaves_zeros_everywhere_and_says_how(do, fleetd, disk):
    assert do("erase", FLEET_ERASE="deep") == 0

    (evidence,) = last(fleetd)["data"]["disks"]
    assert not any(disk.path.read_bytes())
    assert (evidence["method"], evidence["result"], evidence["size"]) == ("overwrite", "erased", DISK_SIZE)
    assert evidence["samples"] >= 1024
    assert evidence["start"] <= evidence["end"]


def test_whoever_stands_at_the_machine_reads_when_an_erase_begins_and_how_far_it_is(do, machine):
    assert do("erase", FLEET_ERASE="deep") == 0

    assert machine.console.lines[:3] == [
        "erase: started.",
        "erase: fleetd gives leave for the disk disk1.",
        "erase: 0 %. The disk is overwritten with zeros.",
    ]
    assert machine.console.lines[-1] == "erase: done."


def test_progress_is_shown_while_fleetd_is_silent_and_once_for_each_percent(machine, fleetd):
    run = RunSettings.from_environment(fleetd.environment())
    calls = RunCalls(machine, connected(machine, fleetd.environment()), run, "write-image")
    fleetd.close()

    for percent in (0.2, 0.9, 1.0, 1.5, 1.5):
        calls.progress(percent, "The image is being written.")
    calls.progress(None, "Asking again.")

    assert [line for line in machine.console.lines if line.startswith("write-image")] == [
        "write-image: 0 %. The image is being written.",
        "write-image: 1 %. The image is being written.",
        "write-image: Asking again.",
    ]


def test_progress_that_cannot_be_told_ends_no_work_whatever_the_reason(machine, fleetd):
    other = FleetdDouble()
    environment = fleetd.environment(FLEET_CA=other.environment()["FLEET_CA"])
    other.close()
    calls = RunCalls(machine, connected(machine, environment), RunSettings.from_environment(environment), "erase")

    calls.progress(1.0, "The disk is being erased.")

    assert fleetd.events == []


def test_a_quick_erase_says_that_data_may_remain(do, fleetd, disk):
    assert do("erase", FLEET_ERASE="quick") == 0

    (evidence,) = last(fleetd)["data"]["disks"]
    assert "may remain" in evidence["note"]
    assert evidence["result"] == "cleared"
    assert not any(disk.path.read_bytes()[:MIB])


def test_another_disk_of_the_machine_is_not_touched(do, fleetd, machine, tmp_path):
    other = file_disk(tmp_path / "other", 8 * MIB, serial="DISK2")
    other.path.write_bytes(b"keep" * (2 * MIB))
    machine.disks.known.append(other)

    assert do("erase", FLEET_ERASE="deep") == 0
    assert other.path.read_bytes() == b"keep" * (2 * MIB)


def test_several_declared_disks_are_erased_each_with_its_own_leave(do, fleetd, machine, tmp_path):
    machine.disks.known.append(file_disk(tmp_path / "other", 8 * MIB, serial="DISK2"))

    assert do("erase", FLEET_ERASE="deep", FLEET_EXTRA_SERIALS="disk2") == 0
    assert [body["disk_serial"] for _m, path, body in fleetd.requests if path == LEAVE] == ["disk1", "disk2"]
    assert [item["serial"] for item in last(fleetd)["data"]["disks"]] == ["DISK1", "DISK2"]


class Stubborn(FileDisks):
    """A disk that takes writes and keeps what it had."""

    def opened(self, disk, *, write):
        return super().opened(disk, write=False)


def test_an_erase_that_does_not_erase_fails_with_what_was_tried(do, machine, fleetd, disk):
    stubborn = replace(machine, disks=Stubborn(disk))

    assert do("erase", stubborn, FLEET_ERASE="deep:discard") == 1
    assert "overwrite:" in last(fleetd)["message"]
    assert "discard:" in last(fleetd)["message"]
    assert told_once(fleetd)


def test_progress_is_dropped_when_fleetd_is_silent_and_the_work_goes_on(do, fleetd, disk):
    fleetd.script[EVENTS] = [None, "hang up"]

    assert do("erase", FLEET_ERASE="deep") == 0
    assert not any(disk.path.read_bytes())


def test_an_erase_mode_that_is_not_known_is_refused_before_anything(do, fleetd, disk):
    before = digest(disk.path.read_bytes())

    assert do("erase", FLEET_ERASE="thorough") == 1
    assert digest(disk.path.read_bytes()) == before


# --- write-image ---


@pytest.mark.parametrize("compression", COMPRESSORS)
def test_an_image_arrives_whole_in_every_compression(do, fleetd, disk, image, server, compression):
    assert do("write-image", **image_environment(server, image, compression)) == 0

    evidence = last(fleetd)["data"]
    assert evidence["sha256"] == digest(image)
    assert evidence["compressed_sha256"] == digest(server.files["image"])
    assert evidence["bytes"] == len(image)
    written = disk.path.read_bytes()
    assert written[MIB : len(image) - MIB] == image[MIB : len(image) - MIB]


def test_holes_of_the_image_are_zeros_on_a_disk_that_held_data(do, disk, image, server):
    assert do("write-image", **image_environment(server, image)) == 0

    hole = slice(len(image) - 6 * MIB, len(image) - MIB)
    assert not any(image[hole])
    assert not any(disk.path.read_bytes()[hole])


def test_the_gpt_is_fitted_to_the_larger_disk(do, disk, image, server):
    assert do("write-image", **image_environment(server, image)) == 0

    verified = run("sgdisk", "--verify", str(disk.path)).stdout.decode()
    assert "No problems found" in verified


def test_after_a_deep_erase_holes_stay_unwritten_and_the_image_is_right(do, disk, image, server):
    assert do("erase", FLEET_ERASE="deep") == 0
    assert do("write-image", **image_environment(server, image)) == 0

    assert disk.path.read_bytes()[MIB : len(image) - MIB] == image[MIB : len(image) - MIB]


def test_a_broken_connection_is_resumed(do, fleetd, image, server):
    server.cut_after = [200_000, 100_000]

    assert do("write-image", **image_environment(server, image, "raw")) == 0
    assert [asked for _path, asked in server.seen] == [None, "bytes=200000-", "bytes=300000-"]


def test_an_image_that_is_missing_only_for_a_moment_is_resumed(do, fleetd, image, server):
    server.cut_after = [200_000]
    server.refusals = [404, 403]

    assert do("write-image", **image_environment(server, image, "raw")) == 0
    assert [asked for _path, asked in server.seen] == [None, *["bytes=200000-"] * 3]


@pytest.mark.parametrize("place", ["http://127.0.0.1:none/image", "http://[/image", "/b\xfccher"])
def test_a_redirect_to_no_address_is_asked_for_again(do, image, server, place):
    server.redirects = [place]

    assert do("write-image", **image_environment(server, image, "raw")) == 0


def test_a_server_without_ranges_is_read_again_from_the_start(do, disk, image, server):
    server.cut_after = [200_000]
    server.ranges = False

    assert do("write-image", **image_environment(server, image, "raw")) == 0
    assert disk.path.read_bytes()[MIB : len(image) - MIB] == image[MIB : len(image) - MIB]


def assert_not_bootable(disk):
    content = disk.path.read_bytes()
    assert not any(content[:MIB])
    assert not any(content[-MIB:])


def test_a_wrong_hash_leaves_a_disk_without_partition_table(do, fleetd, disk, image, server):
    environment = image_environment(server, image)
    environment["FLEET_IMAGE_SHA256"] = "00" * 32

    assert do("write-image", **environment) == 1
    assert "SHA-256 is not the declared one" in last(fleetd)["message"]
    assert_not_bootable(disk)


@pytest.mark.parametrize("change", [-512, 512])
def test_a_wrong_length_leaves_a_disk_without_partition_table(do, disk, image, server, change):
    environment = image_environment(server, image)
    environment["FLEET_IMAGE_SIZE"] = str(len(image) + change)

    assert do("write-image", **environment) == 1
    assert_not_bootable(disk)


@pytest.mark.parametrize("compression", ["zstd", "gzip", "xz"])
def test_a_truncated_file_leaves_a_disk_without_partition_table(do, fleetd, disk, image, server, compression):
    environment = image_environment(server, image, compression)
    server.files["image"] = server.files["image"][:-100]

    assert do("write-image", **environment) == 1
    assert told_once(fleetd)
    assert_not_bootable(disk)


def test_an_image_server_that_never_completes_is_given_up(do, disk, image, server):
    environment = image_environment(server, image, "raw")
    server.cut_after = [1000] + [0] * 1000

    assert do("write-image", **environment) == 1
    assert_not_bootable(disk)


def test_a_missing_image_is_said(do, fleetd, image, server):
    environment = image_environment(server, image)
    server.files.clear()

    assert do("write-image", **environment) == 1
    assert "404" in last(fleetd)["message"]


def test_an_image_larger_than_the_disk_is_refused_before_the_disk_is_touched(do, disk, image, server):
    before = digest(disk.path.read_bytes())

    assert do("write-image", **{**image_environment(server, image), "FLEET_IMAGE_SIZE": str(DISK_SIZE + MIB)}) == 1
    assert digest(disk.path.read_bytes()) == before


def test_an_image_for_other_sectors_is_refused(do, fleetd, machine, disk, image, server):
    machine.disks.known[:] = [replace(disk, sector_size=4096)]

    assert do("write-image", **image_environment(server, image)) == 1
    assert "sectors of 512 bytes; the disk has 4096" in last(fleetd)["message"]
    assert_not_bootable(disk)


@pytest.fixture
def image_key():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def public(key):
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return b64(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


def test_a_signed_image_is_accepted_by_the_classs_key(do, image, server, image_key):
    server.files["image.sig"] = b64(image_key.sign(bytes.fromhex(digest(image)))).encode() + b"\n"

    assert do("write-image", **image_environment(server, image, FLEET_IMAGE_KEY=public(image_key))) == 0


def test_an_image_signed_by_another_key_is_refused(do, fleetd, disk, image, server, image_key):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    server.files["image.sig"] = Ed25519PrivateKey.generate().sign(bytes.fromhex(digest(image)))

    assert do("write-image", **image_environment(server, image, FLEET_IMAGE_KEY=public(image_key))) == 1
    assert "not by the class's key" in last(fleetd)["message"]
    assert_not_bootable(disk)


# --- write-seed, set-boot, finish ---


def tar_of(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def written(do, image, server, fleetd):
    """The image is on the disk."""
    assert do("write-image", **image_environment(server, image)) == 0
    fleetd.events.clear()


def debugfs(disk, command):
    return run("debugfs", "-R", command, f"{disk.path}?offset={ROOT_START}").stdout


SEED = {"user-data": b"#cloud-config\n{}\n", "meta-data": b"instance-id: x\n", "network-config": b"version: 2\n"}


def test_a_nocloud_seed_lies_in_the_images_seed_folder_readable_by_root_only(do, written, fleetd, disk):
    fleetd.seed_tar = tar_of(SEED)

    assert do("write-seed", FLEET_FAMILY="cloud-init-nocloud") == 0
    for name, content in SEED.items():
        assert debugfs(disk, f"cat /var/lib/cloud/seed/nocloud/{name}") == content
    assert b"Mode:  0600" in debugfs(disk, "stat /var/lib/cloud/seed/nocloud/user-data")
    assert last(fleetd)["data"]["sha256"] == digest(fleetd.seed_tar)


def test_a_seed_that_is_not_ready_is_asked_for_again(do, written, fleetd, machine):
    fleetd.seed_tar = tar_of(SEED)
    fleetd.script[f"/v1/runs/{RUN}/seed"] = [problem(409, "the run is attesting", headers={"Retry-After": "5"})]

    assert do("write-seed", FLEET_FAMILY="cloud-init-nocloud") == 0
    assert 5.0 in machine.clock.slept


def test_writing_the_seed_again_replaces_it_and_leaves_a_clean_file_system(do, written, fleetd, disk, tmp_path):
    fleetd.seed_tar = tar_of(SEED)
    do("write-seed", FLEET_FAMILY="cloud-init-nocloud")
    fleetd.seed_tar = tar_of({**SEED, "user-data": b"#cloud-config\nhostname: other\n"})

    assert do("write-seed", FLEET_FAMILY="cloud-init-nocloud") == 0
    assert debugfs(disk, "cat /var/lib/cloud/seed/nocloud/user-data") == b"#cloud-config\nhostname: other\n"
    part = tmp_path / "root.part"
    part.write_bytes(disk.path.read_bytes()[ROOT_START:][:ROOT_SIZE])
    run("e2fsck", "-fn", str(part))


@pytest.mark.parametrize("name", ["../etc/shadow", "/etc/shadow", "a;b", "user data"])
def test_a_seed_with_a_path_that_leads_elsewhere_is_refused(do, written, fleetd, name):
    fleetd.seed_tar = tar_of({**SEED, name: b"x"})

    assert do("write-seed", FLEET_FAMILY="cloud-init-nocloud") == 1
    assert "not allowed" in last(fleetd)["message"]


def test_a_seed_without_meta_data_is_refused(do, written, fleetd):
    fleetd.seed_tar = tar_of({"user-data": b"x"})

    assert do("write-seed", FLEET_FAMILY="cloud-init-nocloud") == 1
    assert "meta-data" in last(fleetd)["message"]


@pytest.fixture
def ticket(fleetd):
    fleetd.ticket_body = {
        "machine": MACHINE, "run": RUN, "ticket": "one-shot", "url": fleetd.url, "ca": fleetd.ca_pem,
        "keys": b64(fleetd.jwks), "lak_unique": b64(bytes(32)), "lak_algorithm": "p-256",
    }  # fmt: skip
    return fleetd.ticket_body


def test_a_ticket_lies_on_the_esp_where_the_installed_system_finds_it(do, written, fleetd, machine, ticket):
    from fleet_machine.seed.ticket import find_ticket

    assert do("write-seed", FLEET_FAMILY="alpine-image") == 0
    found = find_ticket(None, machine.disks, machine.volumes)
    assert (found.ticket, found.machine, found.url) == ("one-shot", MACHINE, fleetd.url)
    assert "one-shot" not in json.dumps(fleetd.events)


def test_taloss_code_stands_in_both_blocks_of_meta(do, fleetd, tmp_path, server):
    from fleet_machine.disk import talos_meta

    image = build_image(tmp_path / "talos.raw", meta=True)
    disk = file_disk(tmp_path / "talos-disk", DISK_SIZE)
    machine = a_machine(tmp_path, disks=[disk])
    fleetd.ticket_body = {"code": "secret-code"}
    assert do("write-image", machine, **image_environment(server, image)) == 0
    assert do("write-seed", machine, FLEET_FAMILY="talos") == 0

    meta = disk.path.read_bytes()[META_START:]
    for at in (0, talos_meta.BLOCK):
        assert talos_meta.decode(meta[at : at + talos_meta.BLOCK]) == {talos_meta.DOWNLOAD_CODE: b"secret-code"}


def test_set_boot_uses_the_fallback_path_where_there_are_no_boot_variables(do, written, fleetd):
    assert do("set-boot") == 0
    assert last(fleetd)["data"]["loader"] == "EFI/BOOT/BOOTX64.EFI"


def test_set_boot_refuses_an_image_without_a_loader(do, written, fleetd, disk):
    run("mdel", "-i", f"{disk.path}@@{ESP_START}", "::/EFI/BOOT/BOOTX64.EFI")

    assert do("set-boot") == 1
    assert "would not start it" in last(fleetd)["message"]


def test_finish_flushes_starts_the_helper_and_then_says_so(do, fleetd, machine):
    assert do("finish") == 0
    assert machine.reboot.waiting == 1
    assert last(fleetd)["kind"] == "finished"


def test_the_helper_reboots_once_fleetd_allows_it(fleetd, machine):
    from fleet_machine.await_reboot import await_reboot

    fleetd.script[f"/v1/runs/{RUN}/reboot"] = [None, problem(503, "busy"), lambda: setattr(fleetd, "reboot", True)]

    assert await_reboot(machine, fleetd.environment()) == 0
    assert machine.reboot.reboots == 1


def test_the_helper_goes_on_where_the_reboot_fails_at_first(fleetd, machine):
    from fleet_machine.await_reboot import await_reboot

    fleetd.reboot = True
    reboot, failures = machine.reboot.now, [OSError("the system manager is busy")]
    machine.reboot.now = lambda: reboot() if not failures else (_ for _ in ()).throw(failures.pop())

    assert await_reboot(machine, fleetd.environment()) == 0
    assert machine.reboot.reboots == 1
    assert "the system manager is busy" in machine.console


def test_a_call_that_a_proxy_made_twice_costs_no_session(fleetd, machine):
    from fleet_machine.await_reboot import await_reboot

    fleetd.reboot = True
    fleetd.script[f"/v1/runs/{RUN}/reboot"] = [problem(401, "counter seen before")]

    assert await_reboot(machine, fleetd.environment()) == 0
    assert [path for _method, path, _body in fleetd.requests] == [f"/v1/runs/{RUN}/reboot"] * 2


def test_the_helper_outlives_the_action_and_a_repeat_leaves_one(fleetd, machine):
    environment = {**os.environ, **fleetd.environment(), "FLEET_HELPER_FOLDER": str(machine.run_folder)}
    started = []

    class Kept(DetachedReboot):
        command = (sys.executable, "-c", HELPER)

        def started(self, process):
            started.append(process)

    try:
        Kept().begin_waiting(environment, machine.run_folder)
        Kept().begin_waiting(environment, machine.run_folder)
        assert started[0].poll() is None
        assert started[1].wait(20) == 0
    finally:
        started[0].kill()
        started[0].wait(10)


def test_the_helper_is_waited_for_as_long_as_a_silent_fleetd_is(fleetd, machine):
    environment = {**os.environ, **fleetd.environment(), "FLEET_HELPER_FOLDER": str(machine.run_folder)}
    fleetd.close()
    started = []

    class Kept(DetachedReboot):
        command = (sys.executable, "-c", HELPER)

        def started(self, process):
            started.append(process)

    begun = time.monotonic()
    try:
        with pytest.raises(FleetError, match="does not reach fleetd"):
            Kept().begin_waiting(environment | {"FLEET_PATIENCE": "2"}, machine.run_folder)
        assert time.monotonic() - begun < 60
    finally:
        started[0].kill()
        started[0].wait(10)


HELPER = """
import os, sys
from pathlib import Path
from tests.integration.fleet_machine.surroundings import a_machine
from fleet_machine.await_reboot import await_reboot
from fleet_machine.clock import SystemClock
from dataclasses import replace
folder = Path(os.environ["FLEET_HELPER_FOLDER"])
sys.exit(await_reboot(replace(a_machine(folder.parent), run_folder=folder, clock=SystemClock()), dict(os.environ)))
"""


def test_an_action_that_does_not_exist_is_named(do, machine):
    assert do("format-everything") == 1
    assert "There is no action" in machine.console


def test_event_numbers_grow_and_never_repeat(do, fleetd):
    do("guard")
    do("guard")

    numbers = [event["seq"] for event in fleetd.events]
    assert numbers == sorted(set(numbers))


def test_a_defect_of_the_client_itself_is_told_in_words(do, fleetd, machine):
    broken = replace(machine, disks=None)

    assert do("guard", broken) == 1
    assert "internal error" in last(fleetd)["message"]


def test_files_of_a_run_stay_in_its_folder(do, machine, tmp_path):
    do("guard")

    assert any((tmp_path / "run").iterdir())
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
