"""What the lab's BMC answers, request by request, without a network."""

import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleet_lab.redfish import Bmc

SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
RIGHT = {"Authorization": "Basic " + base64.b64encode(b"admin:right").decode()}


@dataclass
class Port:
    power: bool = False
    heard: list[Any] = field(default_factory=list)

    def is_on(self) -> bool:
        return self.power

    def on(self) -> None:
        self.power = True
        self.heard.append("on")

    def off(self) -> None:
        self.power = False
        self.heard.append("off")

    def boot_override(self, target: str, *, persistent: bool) -> None:
        self.heard.append((target, persistent))


@pytest.fixture
def bmc() -> Bmc:
    return Bmc(Port(), "admin", "right", Path("unused.pem"))


def test_the_root_needs_no_login_and_the_rest_does(bmc: Bmc) -> None:
    assert bmc.answer("GET", "/redfish/v1/", {}, None)[0] == 200
    assert bmc.answer("GET", SYSTEM, {}, None)[0] == 401


def test_a_session_lives_from_login_to_logout(bmc: Bmc) -> None:
    sessions = "/redfish/v1/SessionService/Sessions"
    status, _, headers = bmc.answer("POST", sessions, {}, {"UserName": "admin", "Password": "right"})
    assert status == 201
    token = {"X-Auth-Token": headers["X-Auth-Token"]}
    assert bmc.answer("GET", SYSTEM, token, None)[1]["PowerState"] == "Off"
    assert bmc.answer("DELETE", headers["Location"], token, None)[0] == 204
    assert bmc.answer("GET", SYSTEM, token, None)[0] == 401


def test_a_session_outlives_the_ends_of_others(bmc: Bmc, switching_often: None) -> None:
    sessions, right = "/redfish/v1/SessionService/Sessions", {"UserName": "admin", "Password": "right"}

    def log_in_and_out(_: int) -> int:
        _, _, headers = bmc.answer("POST", sessions, {}, right)
        token = {"X-Auth-Token": headers["X-Auth-Token"]}
        status, _, _ = bmc.answer("GET", SYSTEM, token, None)
        bmc.answer("DELETE", headers["Location"], token, None)
        return status

    with ThreadPoolExecutor(8) as clients:
        assert set(clients.map(log_in_and_out, range(5_000))) == {200}


@pytest.mark.parametrize("body", [None, [], {}, {"UserName": "admin", "Password": "wrong"}, {"UserName": 1}])
def test_a_wrong_login_is_refused_and_counted(bmc: Bmc, body: Any) -> None:
    assert bmc.answer("POST", "/redfish/v1/SessionService/Sessions", {}, body)[0] == 401
    assert bmc.logins_refused == 1


@pytest.mark.parametrize("header", ["Basic !!", "Basic " + base64.b64encode(b"admin:wrong").decode(), "Bearer x"])
def test_wrong_basic_credentials_are_refused(bmc: Bmc, header: str) -> None:
    assert bmc.answer("GET", SYSTEM, {"Authorization": header}, None)[0] == 401


@pytest.mark.parametrize(
    ("reset", "before", "heard"),
    [
        ("On", False, ["on"]),
        ("ForceOff", True, ["off"]),
        ("GracefulShutdown", True, ["off"]),
        ("ForceRestart", True, ["off", "on"]),
        ("PowerCycle", True, ["off", "on"]),
        ("PowerCycle", False, []),
        ("PushPowerButton", True, ["off"]),
        ("PushPowerButton", False, ["on"]),
    ],
)
def test_resets_reach_the_power_port(bmc: Bmc, reset: str, before: bool, heard: list[str]) -> None:
    bmc.port.power = before
    assert bmc.answer("POST", RESET, RIGHT, {"ResetType": reset})[0] == 204
    assert bmc.port.heard == heard


@pytest.mark.parametrize("body", [None, {}, {"ResetType": "Explode"}])
def test_an_unknown_reset_is_400(bmc: Bmc, body: Any) -> None:
    assert bmc.answer("POST", RESET, RIGHT, body)[0] == 400
    assert bmc.port.heard == []


@pytest.mark.parametrize(("enabled", "persistent"), [("Once", False), ("Continuous", True)])
def test_the_boot_override_reaches_the_port_and_shows(bmc: Bmc, enabled: str, persistent: bool) -> None:
    boot = {
        "BootSourceOverrideEnabled": enabled,
        "BootSourceOverrideMode": "UEFI",
        "BootSourceOverrideTarget": "Pxe",
    }
    status, system, _ = bmc.answer("PATCH", SYSTEM, RIGHT, {"Boot": boot})
    assert status == 200
    assert bmc.port.heard == [("Pxe", persistent)]
    assert system["Boot"]["BootSourceOverrideEnabled"] == enabled


def test_an_unknown_boot_source_is_400(bmc: Bmc) -> None:
    assert bmc.answer("PATCH", SYSTEM, RIGHT, {"Boot": {"BootSourceOverrideTarget": "Floppy"}})[0] == 400


def test_what_is_not_there_is_404(bmc: Bmc) -> None:
    assert bmc.answer("GET", "/redfish/v1/Nowhere", RIGHT, None)[0] == 404


def test_a_bmc_that_refuses_says_so(bmc: Bmc) -> None:
    bmc.behaviour.refuse_resets = True
    assert bmc.answer("POST", RESET, RIGHT, {"ResetType": "On"})[0] == 500
    assert bmc.port.heard == []
