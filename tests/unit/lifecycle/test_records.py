"""Values that are stored come back as they were."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetd.core.declaration import BaselineDecision, Declaration, DeclaredKey, Disk
from fleetd.core.lifecycle.states import STATES, State
from fleetd.core.lifecycle.table import NOW, declared, sample_state
from fleetd.core.names import DiskSerial
from fleetd.core.records import from_record, to_record


@pytest.mark.parametrize("name", STATES)
def test_every_state_comes_back_as_it_was(name: str) -> None:
    state = sample_state(STATES[name])

    back: State = from_record(STATES[name], to_record(state))

    assert back == state


def test_a_declaration_comes_back_as_it_was() -> None:
    whole = replace(
        declared(),
        extra_disks=(Disk(DiskSerial("d2"), "wwn"),),
        keys=(DeclaredKey(1, "ab", "", "approved", "anna"),),
        tags=("edge",),
        baseline_decision=BaselineDecision("aa", accepted=True, by="bea", at=NOW),
    )

    assert from_record(Declaration, to_record(whole)) == whole


def test_a_record_of_an_older_version_takes_defaults_for_what_it_lacks() -> None:
    record = to_record(sample_state(STATES["powering-on"]))
    del record["boots"]

    assert from_record(STATES["powering-on"], record).boots == 1


def test_a_field_that_is_unknown_is_ignored() -> None:
    record = to_record(sample_state(STATES["gated"])) | {"later": 1}

    assert from_record(STATES["gated"], record).since == NOW - timedelta(minutes=1)
