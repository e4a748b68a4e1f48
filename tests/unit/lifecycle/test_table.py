"""The walk over the state table: every pair is decided, and what must never follow never does."""

from pathlib import Path

import pytest

from fleetd.core.lifecycle import effects as do
from fleetd.core.lifecycle.decide import decide
from fleetd.core.lifecycle.states import STATES, Ended, Ending
from fleetd.core.lifecycle.table import EVENTS, NOW, UNREACHED, cells, page, quiet
from fleetd.core.names import IntentKind
from fleetd.core.outside import Part

CELLS = tuple(cells())
DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "lifecycle-states.md"


def test_the_walk_covers_every_pair_of_every_intent() -> None:
    pairs = {(cell.kind, cell.state, cell.event) for cell in CELLS}

    assert len(pairs) == len(IntentKind) * len(STATES) * len(EVENTS)


def test_the_page_in_docs_is_that_of_the_engine() -> None:
    assert DOCUMENT.read_text() == page(), (
        "run: python -m fleetd.core.lifecycle.table > docs/reference/lifecycle-states.md"
    )


def test_a_terminal_state_never_changes() -> None:
    for cell in CELLS:
        if cell.state == "ended":
            assert cell.decision.state.name == "ended"
            assert cell.decision.effects == ()


def test_a_latched_outcome_never_changes() -> None:
    for cell in CELLS:
        if cell.state == "ending":
            state = cell.decision.state
            assert isinstance(state, Ending | Ended)
            assert state.outcome == "failed"
            assert state.code == "sample"


def test_the_disk_workflow_is_created_only_after_the_machine_is_proven_and_the_attest_workflow_gone() -> None:
    for cell in CELLS:
        if do.CreateWorkflow(Part.DISK) in cell.decision.effects:
            assert cell.state in {"proven", "erasing", "installing"}, (cell.state, cell.event)
            assert cell.kind.erases or cell.state in UNREACHED[cell.kind]
            if cell.state == "proven":
                assert cell.event == "Workflow absent"


def test_netboot_is_allowed_only_on_the_way_into_hookos() -> None:
    for cell in CELLS:
        if do.AllowPxe(allowed=True) in cell.decision.effects:
            assert cell.state in {"preparing", "powering-on"}


def test_every_end_that_is_no_success_is_latched_first_and_then_closes_the_netboot() -> None:
    for cell in CELLS:
        state = cell.decision.state
        if isinstance(state, Ending) and cell.state != "ending":
            assert set(cell.decision.effects) <= {do.RemoveBmc()}, (cell.state, cell.event)
            following = decide(*quiet(cell.kind, state), NOW)
            assert following.effects[0] == do.AllowPxe(allowed=False)


def test_certificates_are_revoked_before_the_disk_of_a_wipe_or_retirement_is_touched() -> None:
    for cell in CELLS:
        if cell.state == "proven" and do.CreateWorkflow(Part.DISK) in cell.decision.effects:
            revokes = do.RevokeCertificates() in cell.decision.effects
            assert revokes is (cell.kind in {IntentKind.WIPE, IntentKind.RETIRE})


def test_nothing_but_a_wipe_or_retirement_revokes() -> None:
    for cell in CELLS:
        if cell.state != "withdrawing" and do.RevokeCertificates() in cell.decision.effects:
            assert cell.kind in {IntentKind.WIPE, IntentKind.RETIRE}


@pytest.mark.parametrize("name", sorted(set(STATES) - {"ended", "withdrawing"}))
def test_every_state_leaves_after_its_deadline(name: str) -> None:
    for cell in CELLS:
        if cell.state == name and cell.event == "deadline passed":
            moved = cell.decision.state.name != name or cell.decision.look_again_at == NOW
            assert moved or name == "gated", (cell.kind, cell.decision)


def test_a_decision_that_is_not_final_says_when_to_look_again() -> None:
    for cell in CELLS:
        if not isinstance(cell.decision.state, Ended):
            assert cell.decision.look_again_at is not None
            assert cell.decision.look_again_at >= NOW
