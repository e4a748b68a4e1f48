"""fleetd's Power against Rufio and a BMC: verified states, names used once, and refused credentials."""

import uuid
from typing import Any

import kubernetes
import pytest

from fleet_lab.redfish import Bmc
from fleetd.core.names import MachineId, RunId
from fleetd.ports import JobOutcome, PowerState, PowerStep, RefusedError
from fleetd.tinkerbell.api import JOBS, MACHINES, TASKS, Api
from fleetd.tinkerbell.power import RufioPower
from tests.contract.tinkerbell.place import BMC, MERGE, NAMESPACE, Place, eventually

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@pytest.fixture
def api(place: Place) -> Api:
    return Api(place.configuration, NAMESPACE, timeout=5)


@pytest.fixture
def power(api: Api) -> RufioPower:
    return RufioPower(api, settle=1.0)


@pytest.fixture
def machine(place: Place) -> MachineId:
    number = MachineId(uuid.uuid4().int % 10**9)
    place.made.append(f"{BMC}/machines/fleet-{number}")
    return number


@pytest.fixture
def run(api: Api) -> Any:
    run = RunId(uuid.uuid4())
    yield run
    RufioPower(api).remove_jobs(run)


def a_secret(place: Place, password: str = "right", **labels: str) -> str:
    name = f"bmc-{uuid.uuid4().hex[:8]}"
    body = {
        "metadata": {"name": name, "labels": labels or {"fleet/bmc": "ready"}},
        "stringData": {"username": "admin", "password": password},
    }
    assert place.call("POST", SECRETS, body).status == 201
    return name


def at(bmc: Bmc) -> str:
    return f"127.0.0.1:{bmc.tcp_port}"


def ended(power: RufioPower, run: RunId, name: str) -> JobOutcome:
    return eventually(lambda: (seen := power.job(run, name)).outcome is not JobOutcome.RUNNING and seen).outcome


def test_a_secret_counts_once_its_owner_labelled_it_ready(power: RufioPower, place: Place) -> None:
    assert power.credentials_ready(a_secret(place))
    assert not power.credentials_ready(a_secret(place, **{"fleet/bmc": "soon"}))
    assert not power.credentials_ready("bmc-never")


def test_secrets_are_listed_without_their_content(place: Place) -> None:
    name = a_secret(place)
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = place.call("GET", f"{SECRETS}?labelSelector=fleet%2Fbmc%3Dready", accept=accept).body
    assert name in {item["metadata"]["name"] for item in listed["items"]}
    assert all("data" not in item for item in listed["items"])


def test_a_secret_is_patched_as_the_official_client_does(place: Place) -> None:
    name = a_secret(place, **{"fleet/bmc": "soon"})
    core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(place.configuration))
    core.patch_namespaced_secret(
        name, NAMESPACE, {"metadata": {"labels": {"fleet/bmc": "ready"}}, "stringData": {"a": "b"}}
    )
    read = core.read_namespaced_secret(name, NAMESPACE)
    assert read.metadata.labels == {"fleet/bmc": "ready"}
    assert read.data["a"] == "Yg=="


def test_a_bmc_is_never_made_before_its_secret_is_ready(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId
) -> None:
    with pytest.raises(RefusedError, match="fleet/bmc=ready"):
        power.keep_bmc(machine, at(bmc), a_secret(place, **{"fleet/bmc": "soon"}))
    assert api.get(MACHINES, f"fleet-{machine}") is None
    assert bmc.requests == []


def test_power_jobs_do_what_they_say_and_the_state_is_verified(
    power: RufioPower, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    power.keep_bmc(machine, at(bmc), a_secret(place))
    assert eventually(lambda: power.state(machine) is PowerState.OFF)

    power.start(run, machine, "netboot-1", (PowerStep.OFF, PowerStep.BOOT_NETWORK, PowerStep.ON))

    assert ended(power, run, "netboot-1") is JobOutcome.COMPLETED
    assert bmc.port.boot == ("Pxe", True)
    assert power.state(machine) is PowerState.ON
    power.start(run, machine, "handover-1", (PowerStep.OFF, PowerStep.BOOT_DISK))
    assert ended(power, run, "handover-1") is JobOutcome.COMPLETED
    assert bmc.port.boot == ("Hdd", True)
    assert power.state(machine) is PowerState.OFF


def test_a_state_that_changed_behind_rufio_is_seen(
    power: RufioPower, place: Place, bmc: Bmc, machine: MachineId
) -> None:
    power.keep_bmc(machine, at(bmc), a_secret(place))
    assert eventually(lambda: power.state(machine) is PowerState.OFF)
    bmc.port.on()
    assert power.state(machine) is PowerState.ON


def test_starting_a_job_again_finds_the_first(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    power.keep_bmc(machine, at(bmc), a_secret(place))
    power.start(run, machine, "off-1", (PowerStep.OFF,))
    first = api.get(JOBS, f"{run.hex}-off-1")
    assert ended(power, run, "off-1") is JobOutcome.COMPLETED

    power.start(run, machine, "off-1", (PowerStep.OFF,))

    again = api.get(JOBS, f"{run.hex}-off-1")
    assert first is not None
    assert again is not None
    assert first["metadata"]["uid"] == again["metadata"]["uid"]


def test_a_job_that_was_never_made_is_absent(power: RufioPower, run: RunId) -> None:
    assert power.job(run, "on-1").outcome is JobOutcome.ABSENT


def test_refused_credentials_are_told_and_end_the_tries(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    power.keep_bmc(machine, at(bmc), a_secret(place, password="wrong"))
    power.start(run, machine, "off-1", (PowerStep.OFF,))

    seen = eventually(lambda: (s := power.job(run, "off-1")).outcome is not JobOutcome.RUNNING and s)

    assert seen.outcome is JobOutcome.CREDENTIALS_REFUSED
    assert "401" in seen.problem
    assert "wrong" not in seen.problem
    assert api.get(MACHINES, f"fleet-{machine}") is None
    assert bmc.logins_refused > 1


def test_refused_credentials_show_in_the_state_too(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId
) -> None:
    power.keep_bmc(machine, at(bmc), a_secret(place, password="wrong"))

    def told() -> bool:
        try:
            power.state(machine)
        except RefusedError:
            return True
        return False

    eventually(told)
    assert api.get(MACHINES, f"fleet-{machine}") is None


def test_a_job_whose_machine_went_for_refused_credentials_ends_as_refused(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    body = JOBS.body(
        f"{run.hex}-off-1",
        {"fleet/run": str(run), "fleet/machine": str(machine)},
        {"machineRef": {"name": "none", "namespace": NAMESPACE}, "tasks": [{"powerAction": "off"}]},
    )
    api.create(JOBS, body)
    assert power.job(run, "off-1").outcome is JobOutcome.RUNNING
    power.keep_bmc(machine, at(bmc), a_secret(place, password="wrong"))
    eventually(lambda: (api.get(MACHINES, f"fleet-{machine}") or {}).get("status"))
    with pytest.raises(RefusedError, match="refuses the credentials"):
        power.state(machine)
    assert power.job(run, "off-1").outcome is JobOutcome.CREDENTIALS_REFUSED


def test_a_bmc_that_is_away_fails_the_job_and_is_no_refusal(
    power: RufioPower, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    address = at(bmc)
    bmc.close()
    power.keep_bmc(machine, address, a_secret(place))
    power.start(run, machine, "on-1", (PowerStep.ON,))

    seen = eventually(lambda: (s := power.job(run, "on-1")).outcome is not JobOutcome.RUNNING and s)
    assert seen.outcome is JobOutcome.FAILED
    assert "connection refused" in seen.problem
    assert power.state(machine) is PowerState.UNKNOWN


def test_a_bmc_that_says_no_fails_the_job_with_its_words(
    power: RufioPower, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    bmc.behaviour.refuse_resets = True
    power.keep_bmc(machine, at(bmc), a_secret(place))
    power.start(run, machine, "on-1", (PowerStep.ON,))
    seen = eventually(lambda: (s := power.job(run, "on-1")).outcome is not JobOutcome.RUNNING and s)
    assert seen.outcome is JobOutcome.FAILED
    assert "BMC says no" in seen.problem


def test_a_moved_bmc_gets_its_new_address(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId
) -> None:
    secret = a_secret(place)
    power.keep_bmc(machine, at(bmc), secret)
    before = eventually(lambda: (m := api.get(MACHINES, f"fleet-{machine}")) and m.get("status") and m)
    power.keep_bmc(machine, at(bmc), secret)
    power.keep_bmc(machine, "192.0.2.9", secret)
    after = api.get(MACHINES, f"fleet-{machine}")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["connection"]["host"] == "192.0.2.9"
    assert "redfish" not in after["spec"]["connection"]["providerOptions"]


def test_jobs_of_a_run_are_removed_with_their_tasks(
    power: RufioPower, api: Api, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    power.keep_bmc(machine, at(bmc), a_secret(place))
    power.start(run, machine, "off-1", (PowerStep.OFF,))
    assert ended(power, run, "off-1") is JobOutcome.COMPLETED
    power.remove_jobs(run)
    assert api.labelled(JOBS, f"fleet/run={run}") == []
    eventually(lambda: not api.labelled(TASKS, f"owner-name={run.hex}-off-1"))


def test_a_missing_secret_key_leaves_a_job_without_an_end(
    power: RufioPower, place: Place, bmc: Bmc, machine: MachineId, run: RunId
) -> None:
    secret = a_secret(place)
    place.call("PATCH", f"{SECRETS}/{secret}", {"data": {"password": None}}, content_type=MERGE)
    power.keep_bmc(machine, at(bmc), secret)
    power.start(run, machine, "off-1", (PowerStep.OFF,))
    eventually(lambda: power.api.labelled(TASKS, f"owner-name={run.hex}-off-1"))
    assert power.job(run, "off-1").outcome is JobOutcome.RUNNING
    assert bmc.requests == []
