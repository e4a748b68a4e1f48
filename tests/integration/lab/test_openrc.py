"""The services of deploy/alpine under the real OpenRC, in a namespace of their own: what starts when, and what again.

fleet_machine itself is stood in for by a script that tells when it is called and ends as a test wants.
"""

import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from fleet_lab.images.cache import image_cache
from fleet_lab.images.filetree import File, Folder, Link, write_tar
from fleet_lab.images.hookos import ACCOUNTS
from fleet_lab.images.openrc import openrc_nodes, service_nodes
from fleet_lab.images.packages import extracted_root, this_host_suite
from fleet_lab.images.selection import MERGED_LINKS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLAIM, CHECK = "-m fleet_machine claim-seed", "-m fleet_machine boot-check"
_MACHINE = b"""#!/bin/sh
echo "$*" >>/said
case "$3" in
claim-seed) test -e /fleetd-answers ;;
boot-check) until rm /check-dies 2>/dev/null; do sleep 0.1; done ;;
esac
"""
_NETWORK = b"#!/sbin/openrc-run\ndepend() {\n provide net localmount\n}\nstart() {\n return 0\n}\n"
_OTHER = b"#!/sbin/openrc-run\nstart() {\n echo other >>/said\n}\n"
_LEVEL = "etc/runlevels/default"
_FIRST = """
mount -t proc proc /proc && mount -t tmpfs run /run && mount -t tmpfs dev /dev && mknod /dev/null c 1 3 &&
openrc sysinit && openrc boot && openrc default
echo default-done >>/said
exec sleep 1000
"""


class Alpine:
    """A booted root folder; every process of it ends with the first."""

    def __init__(self, folder):
        self.folder = folder
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", folder, "/bin/sh", "-c", _FIRST]
        self.first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_PATH)
        self.until(lambda: "default-done" in self.said)

    @property
    def said(self):
        file = self.folder / "said"
        return file.read_text().splitlines() if file.exists() else []

    def run(self, *words):
        pid = Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text().split()[0]
        command = ["nsenter", "--target", pid, "--mount", "--pid", "--root", "--wd=/", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=_PATH, timeout=60)

    def status(self, service):
        (line,) = [line for line in self.run("rc-status", "default").stdout.splitlines() if f" {service} " in line]
        return line.split("[")[1].split()[0]

    def until(self, true):
        deadline = time.monotonic() + 120
        while not true():
            assert self.first.poll() is None
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def off(self):
        self.first.kill()
        self.first.wait()
        (self.folder / "said").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The root folder of an Alpine with nothing but OpenRC and the two services, as a tar."""
    path = tmp_path_factory.mktemp("openrc") / "root.tar"
    nodes = (
        *MERGED_LINKS,
        *ACCOUNTS,
        *openrc_nodes(extracted_root(image_cache(), this_host_suite())),
        *service_nodes(),
        File("usr/bin/python3", _MACHINE, 0o755),
        *(Folder(name) for name in ("proc", "run", "dev", "tmp", "root")),
        File("etc/init.d/network", _NETWORK, 0o755),
        File("etc/init.d/other", _OTHER, 0o755),
        *(Link(f"{_LEVEL}/{name}", f"/etc/init.d/{name}") for name in ("network", "other")),
        # An owner's own settings, as OpenRC reads them.
        File("etc/conf.d/fleet-claim-seed", b"retry_delay=0.2\n"),
        File("etc/conf.d/fleet-boot-check", b"respawn_delay=1\n"),
    )
    with path.open("wb") as file:
        write_tar(nodes, file)
    return path


@pytest.fixture
def alpine(packed, tmp_path):
    """Boots that root folder, again and again if need be."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a mount namespace with a root of its own")
    folder = tmp_path / "root"
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="tar")
    booted = []

    def boot():
        booted.append(Alpine(folder))
        return booted[-1]

    yield boot
    for one in booted:
        one.off()


def fleetd_answers(machine):
    (machine.folder / "fleetd-answers").touch()


def test_the_start_of_the_system_does_not_wait_for_a_silent_fleetd(alpine):
    machine = alpine()

    machine.until(lambda: machine.said.count(CLAIM) >= 3)

    assert "other" in machine.said
    assert CHECK not in machine.said
    assert (machine.status("fleet-claim-seed"), machine.status("fleet-boot-check")) == ("inactive", "scheduled")


def test_the_seed_is_claimed_once_and_then_the_check_is_started(alpine):
    machine = alpine()
    fleetd_answers(machine)

    machine.until(lambda: machine.status("fleet-boot-check") == "started")

    said = machine.said
    time.sleep(2)
    assert machine.said == said
    assert said.count(CHECK) == 1
    assert said.index(CHECK) > max(at for at, word in enumerate(said) if word == CLAIM)
    assert machine.status("fleet-claim-seed") == "started"


def test_a_check_that_ends_is_started_again(alpine):
    machine = alpine()
    fleetd_answers(machine)
    machine.until(lambda: CHECK in machine.said)

    (machine.folder / "check-dies").touch()

    machine.until(lambda: machine.said.count(CHECK) == 2)


def test_after_a_reboot_both_run_again_as_the_first_time(alpine):
    machine = alpine()
    fleetd_answers(machine)
    machine.until(lambda: CHECK in machine.said)
    machine.off()

    machine = alpine()

    machine.until(lambda: CHECK in machine.said)
    assert machine.said.count(CLAIM) == 1


def test_a_seed_that_is_here_before_openrc_has_taken_note_of_the_claim_still_starts_the_check(alpine, tmp_path):
    root = tmp_path / "root"
    (root / "fleetd-answers").touch()
    # A slow host: the claim has ended before its service is "inactive".
    with (root / "etc/conf.d/fleet-claim-seed").open("a") as file:
        file.write('eend() {\n sleep 2\n command eend "$@"\n}\n')

    machine = alpine()

    machine.until(lambda: CHECK in machine.said)
    assert machine.said.count(CLAIM) == 1


def test_stopping_ends_the_claim_and_what_needs_it(alpine):
    machine = alpine()
    machine.until(lambda: CLAIM in machine.said)

    stopped = machine.run("rc-service", "fleet-claim-seed", "stop")

    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    said = machine.said
    time.sleep(1)
    assert machine.said == said
    assert machine.status("fleet-claim-seed") == "stopped"


_PATH = {"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"}
