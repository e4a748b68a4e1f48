"""A declaration is read strictly: what is malformed is named, and never becomes an order."""

import copy
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetd.core.declaration import Vanished
from fleetd.core.names import IntentKind, Phase, StatementKind
from fleetd.netbox.records import MalformedRecordError, parse_record

WORD = "5e6f4c8e-0d0e-4b57-9f5b-222222222222"
CONTRACT = Path(__file__).parents[3] / "docs" / "reference" / "plugin-api.md"


def an_example():
    """The record that the contract shows, with the times and ids that it leaves open."""
    block = re.search(r"```json\n(\{\"machine_id\": 7, \"tombstone\".*?)```", CONTRACT.read_text(), re.DOTALL).group(1)
    block = block.replace('"uuid"', '"5e6f4c8e-0d0e-4b57-9f5b-111111111111"').replace('".."', '"2026-01-01T00:00:00Z"')
    return json.loads(block)


def test_the_record_of_the_contract_is_understood():
    declared = parse_record(an_example())

    assert declared.machine == 7
    assert declared.disk.serial == "lab0001"
    assert declared.intent.kind is IntentKind.PROVISION
    assert declared.intent.approved
    assert declared.phase is Phase.DECLARED
    assert declared.macs == ("52:54:00:00:00:01",)
    assert declared.has_bmc


def test_what_a_person_said_of_the_machine_is_read_with_it():
    record = an_example()
    record["statements"].append(
        {
            "id": WORD,
            "kind": "disk",
            "subject": " STRAY1 ",
            "intent": WORD,
            "by": "bea",
            "reason": "",
            "at": "2026-01-01T00:00:00Z",
        }
    )

    release, disk = parse_record(record).statements

    assert (release.kind, release.by, release.intent, release.subject) == (StatementKind.RELEASE, "anna", None, "")
    assert (disk.kind, str(disk.intent), disk.subject) == (StatementKind.DISK, WORD, "stray1")


def test_a_record_of_an_older_plugin_has_no_statements():
    record = an_example()
    del record["statements"]

    assert parse_record(record).statements == ()


def test_a_tombstone_is_a_vanished_machine():
    assert parse_record({"machine_id": 7, "tombstone": True}) == Vanished(7)


def test_an_intent_that_waits_for_a_second_person_is_not_approved():
    record = an_example()
    record["intent"]["state"] = "requested"

    assert not parse_record(record).intent.approved


def test_without_a_disk_serial_there_is_no_disk():
    record = an_example()
    record["machine"]["disk_serial"] = "  "

    assert parse_record(record).disk is None


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("machine_id",), "7", "machine_id"),
        (("machine_id",), True, "machine_id"),
        (("tombstone",), "yes", "tombstone"),
        (("device",), None, "device"),
        (("machine", "phase"), "flying", "machine.phase"),
        (("intent", "id"), "not a uuid", "intent.id"),
        (("intent", "kind"), "explode", "intent.kind"),
        (("intent", "requested_at"), "2026-01-01T00:00:00", "requested_at"),
        (("intent", "force_budget"), "no", "force_budget"),
        (("interfaces",), {}, "interfaces"),
        (("interfaces",), [{"name": "eth0", "mac_addresses": ["zz"]}], "mac_addresses"),
        (("eks",), [{"id": "one"}], "eks[0].id"),
        (("machine", "node_name"), 5, "node_name"),
        (("intent", "two_person"), "no", "two_person"),
        (("intent", "two_person"), None, "two_person"),
        (("intent", "state"), None, "intent.state"),
        (("intent", "state"), "held", "intent.state"),
        (("statements",), [{"id": "x"}], "statements[0].id"),
        (("statements",), [{"id": WORD, "kind": "release"}], "statements[0].at"),
        (("statements",), [{"id": WORD, "kind": "explode"}], "statements[0].kind"),
    ],
)
def test_a_wrong_field_is_named(path, value, named):
    record = an_example()
    place = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    with pytest.raises(MalformedRecordError, match=re.escape(named)):
        parse_record(record)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_no_value_anywhere_raises_anything_but_the_refusal(data):
    record = copy.deepcopy(an_example())
    places = [record, record["device"], record["machine"], record["intent"], record["interfaces"][0], record["eks"][0]]
    place = data.draw(st.sampled_from(places))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(ANYTHING)

    try:
        parse_record(record)
    except MalformedRecordError:
        return
