import pytest

from tests.integration.fleet_machine.fleetd_double import FleetdDouble
from tests.swtpm import start_swtpm


@pytest.fixture(scope="session")
def session_tpm(tmp_path_factory):
    """One software TPM for all tests that do not clear it."""
    with start_swtpm(tmp_path_factory.mktemp("tpm")) as tpm:
        yield tpm


@pytest.fixture
def tpm(session_tpm):
    """A software TPM, freshly switched on."""
    session_tpm.power_cycle()
    return session_tpm


@pytest.fixture
def fleetd():
    """A fleetd that says yes."""
    running = FleetdDouble()
    yield running
    running.close()
