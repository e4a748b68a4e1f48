"""Every intent, with all of fleetd's processes killed at each point of the work: the ends are the same, nothing twice."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fleet_lab.fleetd_service import PROCESSES
from fleet_lab.machine.forkserver import ForkServer
from tests.e2e.doomed import LEDGER, ONE_SIDE
from tests.e2e.faulty_api import FaultyApi
from tests.e2e.life import Life

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]


@pytest.fixture(scope="module")
def fleet(make_fleet):
    """A lab in which a machine whose worker died is looked at again soon."""
    return make_fleet(lease=8.0)


class Doomed:
    """fleetd, started again each time that one of its processes has died, after the rest of them was killed too."""

    def __init__(self, fleetd, folder, one_side):
        self._one_side = {ONE_SIDE: "1"} if one_side else {}
        self.ledger = folder / "ledger"
        self.ledger.mkdir(parents=True)
        self.deaths = 0
        self._fleetd = fleetd
        self._log = folder / "doomed.log"
        self._server = ForkServer("tests.e2e.doomed:run", folder / "forks.log")
        self._stop = threading.Event()
        self._restarting = ThreadPoolExecutor(1).submit(self._restart_for_ever)

    @property
    def points(self):
        return sorted(file.name for file in self.ledger.iterdir())

    def close(self):
        """End it; raises what ended the restarts before that, if something did."""
        self._stop.set()
        try:
            self._restarting.result()
        finally:
            self._server.close()

    def _restart_for_ever(self):
        environment = {**os.environ, **self._fleetd.environment, LEDGER: str(self.ledger), **self._one_side}
        while not self._stop.is_set():
            known = len(self.points)
            jobs = [self._server.start([name], environment, self._log) for name in PROCESSES]
            while not self._stop.is_set() and len(self.points) == known and all(job.wait(0) is None for job in jobs):
                time.sleep(0.02)
            self.deaths += not self._stop.is_set()
            for job in jobs:
                job.kill()
            for name, job in zip(PROCESSES, jobs, strict=True):
                assert job.wait(60) is not None, f"fleetd {name} does not die of SIGKILL"


@contextmanager
def doomed(fleet, one_side):
    fleet.lab.fleetd.kill()
    running = Doomed(fleet.lab.fleetd, fleet.lab.places.state / f"doomed-{one_side}", one_side)
    try:
        yield running
    finally:
        running.close()
        fleet.lab.fleetd.start()


def provisioned_and_wiped(life):
    life.ask("provision")
    life.checked()
    life.ask("wipe")
    assert life.phase == "wiped"
    return 2


def checked_on_demand_and_retired(life):
    life.ask("provision")
    life.checked()
    life.ask("attest")
    assert life.phase == "active"
    life.decommission()
    assert life.phase == "retired"
    return 2


def attested_first_and_attested_with_a_reboot(life):
    life.ask("attest")
    assert life.phase == "attested"
    life.ask("provision")
    life.checked()
    life.ask("attest", reboot=True)
    life.checked()
    assert life.phase == "active"
    return 1


LIVES = (provisioned_and_wiped, checked_on_demand_and_retired, attested_first_and_attested_with_a_reboot)


@pytest.mark.parametrize(
    ("one_side", "at_least"),
    [pytest.param(True, 40, id="on one side"), pytest.param(False, 80, id="on both sides", marks=pytest.mark.soak)],
)
def test_every_intent_ends_the_same_when_fleetd_is_killed_at_every_point_of_it(
    fleet, record_property, one_side, at_least
):
    lives = [(life_of, Life.of(fleet)) for life_of in LIVES]
    with doomed(fleet, one_side) as fate, ThreadPoolExecutor(len(lives)) as owners:
        lived = [owners.submit(life_of, life) for life_of, life in lives]
        erasures = [future.result() for future in lived]
        points, deaths = fate.points, fate.deaths

    record_property("points at which fleetd was killed", len(points))
    record_property("times that fleetd was killed", deaths)
    assert len(points) >= at_least, points
    for (_, life), expected in zip(lives, erasures, strict=True):
        assert life.ran()["erase"] == expected, f"{life.spec.name} was not erased {expected} times: {life.ran()}"
        assert sorted(run["run_id"] for run in life.runs()) == sorted(life.asked), "each wish is one run"
        life.left_nothing()


def test_a_kubernetes_api_that_conflicts_forgets_throttles_breaks_and_hangs_changes_no_end(fleet, record_property):
    lab = fleet.lab
    faulty = FaultyApi(lab.tinkerbell.kubeconfig, lab.places.state)
    configuration = lab.fleetd.configuration
    told = configuration.read_text()
    lab.fleetd.kill()
    configuration.write_text(told.replace(str(lab.tinkerbell.kubeconfig), str(faulty.kubeconfig)))
    lab.fleetd.start()
    try:
        life = Life.of(fleet)
        erasures = provisioned_and_wiped(life)
    finally:
        lab.fleetd.kill()
        configuration.write_text(told)
        lab.fleetd.start()
        faulty.close()

    record_property("faults of the Kubernetes API", dict(faulty.kinds))
    assert set(faulty.kinds) == {"409", "410", "429", "500", "hang", "lost answer"}
    assert life.ran()["erase"] == erasures
    assert len(life.runs()) == len(life.asked)
    life.left_nothing()


def test_every_service_stopped_and_started_in_the_middle_of_a_walk_changes_no_end(fleet):
    lab = fleet.lab
    tinkerbell = lab.tinkerbell.child
    outages = [
        ("PostgreSQL", lab.postgres.stop, lab.postgres.child.start),
        ("Valkey", lab.valkey.stop, lab.valkey.child.start),
        ("NetBox", lab.netbox.stop, lab.netbox.start),
        ("Tinkerbell", tinkerbell.stop, tinkerbell.start),
        ("PostgreSQL, as by a power cut", lab.postgres.kill, lab.postgres.child.start),
    ]
    life, done, seen = Life.of(fleet), [], set()

    def perhaps_stop_one():
        news = (life.phase, life.shown["message"])
        if news not in seen and len(done) < len(outages):
            seen.add(news)
            name, stop, start = outages[len(done)]
            stop()
            time.sleep(1)
            start()
            done.append(name)
            life.answers_again()

    life.ask("provision", note=perhaps_stop_one)
    life.checked()

    assert done == [name for name, _, _ in outages]
    assert life.ran()["erase"] == 1
    life.left_nothing()
