"""What all tests share: where the recorded evidence lies, when it is there, and the services of the test lab."""

import ctypes
import ctypes.util
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
SHARED = CHECKOUT.parent / "shared"
_CRYPTO = ctypes.CDLL(ctypes.util.find_library("crypto"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget what an earlier test of this process left in OpenSSL's error queue.

    A C library (the TSS, say) may leave an error there; Python's ssl then takes it for one of its next read.
    """
    _CRYPTO.ERR_clear_error()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what the imports made, all of NetBox and Kubernetes, out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns after a microsecond: what only a rare turn breaks, breaks here."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="session")
def lab_places() -> Iterator:
    """The folders of this session's lab: sessions of one checkout may run side by side; gone at the end."""
    from fleet_lab.bringup import clean
    from fleet_lab.places import Places

    places = Places(f"test-{os.getpid()}")
    yield places
    clean(places)


@pytest.fixture(scope="session")
def postgres(lab_places) -> Iterator:
    """A private PostgreSQL, started once for the whole session."""
    from fleet_lab.services.postgres import start_postgres

    running = start_postgres(lab_places)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def valkey(lab_places) -> Iterator:
    """A private Valkey, started once for the whole session."""
    from fleet_lab.services.valkey import start_valkey

    running = start_valkey(lab_places)
    yield running
    running.stop()


@pytest.fixture
def empty_database(postgres) -> Iterator[str]:
    """The SQLAlchemy address of an empty database that is gone after the test."""
    import uuid

    name = f"t_{uuid.uuid4().hex[:12]}"
    postgres.create(name)
    yield postgres.url(name)
    postgres.drop(name)


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what tests measured with `record_property`, which no assertion shows."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {name}: {value}")
