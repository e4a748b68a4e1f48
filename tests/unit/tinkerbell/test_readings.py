"""What fleetd reads out of Tinkerbell's and Rufio's objects."""

import copy
from typing import Any

import pytest

from fleetd.core.names import MacAddress, MachineId
from fleetd.ports import HardwareWanted, RefusedError, WorkflowOutcome
from fleetd.tinkerbell.hardware import merged
from fleetd.tinkerbell.names import label_value
from fleetd.tinkerbell.power import connection, refused, shortened
from fleetd.tinkerbell.workflows import seen

MANY = (
    "Failed to connect to BMC: failed to open connection to BMC: 3 errors occurred:\n"
    '\t* provider: openbmc: Get "https://192.0.2.9": dial tcp 192.0.2.9:443: connect: connection refused\n'
    "\t* provider: gofish: {redfish}\n"
    "\t* no Opener implementations found\n\n"
)
IN_LINES = '400: {\n  "error": {\n    "MessageId": "iLO.2.14.UnauthorizedLoginAttempt"\n  }\n}'
"""A BMC that breaks its answer into lines: Rufio tells the body as it came."""
UNAUTHORIZED = '401: {"error": {"code": "Base.1.0.GeneralError", "message": "Unauthorized"}}'


def workflow(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "w", "managedFields": [1]}, "status": status}


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("", WorkflowOutcome.UNRENDERED),
        ("PREPARING", WorkflowOutcome.PENDING),
        ("PENDING", WorkflowOutcome.PENDING),
        ("RUNNING", WorkflowOutcome.RUNNING),
        ("POST", WorkflowOutcome.RUNNING),
        ("SUCCESS", WorkflowOutcome.SUCCESS),
        ("FAILED", WorkflowOutcome.FAILED),
        ("TIMEOUT", WorkflowOutcome.TIMEOUT),
        ("UNSPECIFIED", WorkflowOutcome.RUNNING),
        ("42", WorkflowOutcome.RUNNING),
    ],
)
def test_a_state_means_what_it_means_and_an_odd_one_is_running(state: str, outcome: WorkflowOutcome) -> None:
    assert seen(workflow(state=state)).outcome is outcome


def test_pending_after_something_was_served_is_running() -> None:
    assert seen(workflow(state="PENDING", currentState={"state": "SUCCESS"})).outcome is WorkflowOutcome.RUNNING


def test_a_workflow_without_a_status_is_unrendered() -> None:
    assert seen({"metadata": {"name": "w"}}).outcome is WorkflowOutcome.UNRENDERED


def test_actions_are_read_with_their_times() -> None:
    action = {"id": "x", "name": "erase", "state": "SUCCESS", "executionStart": "2026-01-01T00:00:00Z"}
    read = seen(workflow(state="RUNNING", tasks=[{"actions": [action]}, {"actions": None}])).actions
    assert [(a.name, a.state) for a in read] == [("erase", "SUCCESS")]
    assert read[0].started is not None
    assert read[0].ended is None


def test_a_long_reason_is_cut() -> None:
    condition = {"type": "TemplateRenderedSuccess", "status": "False", "message": "x" * 10_000}
    assert len(seen(workflow(templateRendering="failed", conditions=[condition])).problem) == 500


def test_the_archive_holds_no_managed_fields() -> None:
    raw = seen(workflow(state="SUCCESS")).raw
    assert raw is not None
    assert "managedFields" not in raw["metadata"]


@pytest.mark.parametrize(
    ("problem", "is_refusal"),
    [
        (MANY.replace("{redfish}", UNAUTHORIZED), True),
        (MANY.replace("{redfish}", IN_LINES), True),
        (MANY.replace("{redfish}", "dial tcp: connect: connection refused"), False),
        (MANY.replace("connect: connection refused", "401 Unauthorized").replace("{redfish}", "EOF"), False),
        ("get power state: 2 errors occurred:\n\t* provider: gofish: failed: [" + UNAUTHORIZED + "]", False),
        ("failed to perform PowerAction: 2 errors occurred:\n\t* provider: gofish: " + UNAUTHORIZED, False),
        ("500: BMC says no", False),
        ("port 4010 is closed", False),
        ("", False),
    ],
)
def test_only_a_login_of_the_redfish_provider_decides_whether_credentials_were_refused(
    problem: str, is_refusal: bool
) -> None:
    assert refused(problem) is is_refusal


def test_the_line_that_says_most_is_kept_of_a_failure() -> None:
    assert shortened(MANY.replace("{redfish}", "EOF")) == "provider: gofish: EOF"
    assert shortened("") == ""


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("192.0.2.9", "192.0.2.9", None),
        ("bmc.example:8443", "bmc.example", 8443),
        ("https://bmc.example:8443/", "bmc.example", 8443),
        ("http://bmc.example", "http://bmc.example", None),
        ("[2001:db8::9]:443", "[2001:db8::9]", 443),
    ],
)
def test_an_address_of_a_bmc_may_be_written_in_the_usual_ways(address: str, host: str, port: int | None) -> None:
    made = connection(address, "s", "n")
    assert made["host"] == host
    assert made["providerOptions"].get("redfish", {}).get("port") == port
    assert made["authSecretRef"] == {"name": "s", "namespace": "n"}


@pytest.mark.parametrize("address", ["", "https://", "host:port", "[::1"])
def test_an_address_that_cannot_be_read_is_refused(address: str) -> None:
    with pytest.raises(RefusedError):
        connection(address, "s", "n")


def test_a_label_holds_only_what_labels_may() -> None:
    assert label_value("node 7/ä") == "node-7"
    assert label_value("-" * 80) == ""
    assert len(label_value("n" * 80)) == 63


def wanted(**changes: Any) -> HardwareWanted:
    plain: dict[str, Any] = {
        "machine": MachineId(7),
        "node_name": "node",
        "macs": (MacAddress("52:54:00:00:00:01"),),
        "addresses": (),
        "gateway": "",
        "allow_pxe": False,
        "bmc": False,
    }
    return HardwareWanted(**plain | changes)


def test_merging_twice_changes_nothing_and_leaves_its_argument_alone() -> None:
    first: dict[str, Any] = {"metadata": {"name": "fleet-7"}, "spec": {}}
    before = copy.deepcopy(first)
    once = merged(first, wanted(bmc=True))
    assert merged(once, wanted(bmc=True)) == once
    assert first == before


def test_a_mac_that_is_no_longer_declared_leaves_the_hardware() -> None:
    two = merged(
        {"metadata": {}, "spec": {}}, wanted(macs=(MacAddress("52:54:00:00:00:01"), MacAddress("52:54:00:00:00:02")))
    )
    one = merged(two, wanted(macs=(MacAddress("52:54:00:00:00:02"),)))
    assert [i["dhcp"]["mac"] for i in one["spec"]["interfaces"]] == ["52:54:00:00:00:02"]


def test_the_owners_ipxe_script_stays_on_its_interface() -> None:
    item = merged({"metadata": {}, "spec": {}}, wanted())
    item["spec"]["interfaces"][0]["netboot"]["ipxe"] = {"url": "http://x"}
    assert merged(item, wanted())["spec"]["interfaces"][0]["netboot"]["ipxe"] == {"url": "http://x"}


@pytest.mark.parametrize("address", ["2001:db8::7/64", "nonsense", ""])
def test_only_an_ipv4_address_becomes_a_lease(address: str) -> None:
    item = merged({"metadata": {}, "spec": {}}, wanted(addresses=(address,), gateway="192.0.2.1"))
    assert "ip" not in item["spec"]["interfaces"][0]["dhcp"]


def test_without_a_bmc_no_bmc_is_referred_to() -> None:
    with_bmc = merged({"metadata": {}, "spec": {}}, wanted(bmc=True))
    assert with_bmc["spec"]["bmcRef"]["name"] == "fleet-7"
    assert "bmcRef" not in merged(with_bmc, wanted())["spec"]
