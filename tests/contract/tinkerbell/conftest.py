"""The Tinkerbell under test: a real one where FLEET_LAB_KUBECONFIG and FLEET_LAB_TINK_GRPC name it, else the stand-in."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet_lab.redfish import Bmc
from fleet_lab.tinkerbell.standin import Options, in_thread
from tests.conftest import SHARED
from tests.contract.tinkerbell.place import Place, from_environment

TRACES = SHARED / "tinkerbell" / "traces"


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    real = from_environment()
    if real is not None:
        yield Place(*real, real=True)
        return
    with in_thread(Options(tmp_path_factory.mktemp("tinkerbell"))) as running:
        yield Place(running.kubeconfig, running.grpc, real=False)


@pytest.fixture
def place(started: Place) -> Iterator[Place]:
    yield started
    started.clean()


@pytest.fixture
def traces() -> Path:
    if not TRACES.is_dir():
        pytest.skip("the recorded traces are not here")
    return TRACES


@dataclass
class FakePort:
    """A machine that does at once what its BMC says."""

    power: bool = False
    boot: tuple[str, bool] = ("None", False)
    dead: bool = False

    def is_on(self) -> bool:
        return self.power

    def on(self) -> None:
        self.power = not self.dead

    def off(self) -> None:
        self.power = False

    def boot_override(self, target: str, *, persistent: bool) -> None:
        self.boot = (target, persistent)


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Any]:
    running = Bmc(FakePort(), "admin", "right", tmp_path / "bmc.pem").start()
    yield running
    running.close()
