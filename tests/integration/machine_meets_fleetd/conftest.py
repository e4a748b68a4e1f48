"""The machine listener of the HTTP tests, with all that it stands on, and a machine with a software TPM before it."""

from dataclasses import replace

import pytest

from tests.integration.fleet_machine.image import MIB
from tests.integration.fleet_machine.surroundings import QuickClock, a_machine, file_disk
from tests.integration.http.conftest import *  # noqa: F403 - pytest finds fixtures by their names here
from tests.integration.machine_meets_fleetd.setting import BootLog, Facts, Listening
from tests.swtpm import start_swtpm


@pytest.fixture(scope="session")
def own_tpm(tmp_path_factory):
    with start_swtpm(tmp_path_factory.mktemp("walk-tpm")) as running:
        yield running


@pytest.fixture
def tpm(own_tpm):
    own_tpm.power_cycle()
    return own_tpm


@pytest.fixture
def fleetd(service, tmp_path):
    running = Listening(service, tmp_path)
    yield running
    running.close()


@pytest.fixture
def disk(tmp_path):
    return file_disk(tmp_path / "disk", 32 * MIB, serial="LAB0001")


@pytest.fixture
def machine(tmp_path, tpm, disk):
    made = a_machine(tmp_path / "hookos", tpm.tcti, disks=[disk], clock=QuickClock())
    return replace(made, facts=Facts(), event_log=BootLog(tpm))
