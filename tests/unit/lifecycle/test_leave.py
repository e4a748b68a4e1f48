"""The leave to erase or write: given in one state, for one disk, in one order."""

from dataclasses import replace

import pytest

from fleetd.core.declaration import Disk
from fleetd.core.lifecycle.leave import DESTRUCTIVE, Granted, NotNow, may_start
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import STATES
from fleetd.core.lifecycle.table import quiet, sample_state
from fleetd.core.names import DiskSerial, IntentKind

SERIAL = DiskSerial("d1")


def a_run(kind: IntentKind = IntentKind.PROVISION, state: str = "erasing") -> Run:
    return quiet(kind, sample_state(STATES[state]))[0]


def ask(run: Run, action: str = "erase", serial: str = "d1", **changes):
    values = {"finished": set(), "cancelled": False, "clock_ok": True} | changes
    return may_start(run, action, DiskSerial(serial), **values)


def test_the_erase_of_the_declared_disk_is_granted_at_its_step() -> None:
    assert ask(a_run()) == Granted()


@pytest.mark.parametrize("state", sorted(set(STATES) - {"erasing", "installing"}))
@pytest.mark.parametrize("action", DESTRUCTIVE)
def test_no_other_state_grants_anything(state: str, action: str) -> None:
    answer = ask(a_run(state=state), action, finished={"erase"})

    assert isinstance(answer, NotNow)


def test_a_state_before_the_disk_says_when_to_ask_again() -> None:
    answer = ask(a_run(state="proven"))

    assert isinstance(answer, NotNow)
    assert not answer.stop
    assert answer.retry_after


def test_another_disk_is_never_granted() -> None:
    answer = ask(a_run(), serial="d2")

    assert isinstance(answer, NotNow)
    assert answer.stop


def test_an_attest_run_erases_nothing() -> None:
    assert isinstance(ask(a_run(IntentKind.ATTEST)), NotNow)


def test_extra_disks_are_for_wipe_and_retire_only() -> None:
    def with_extra(kind: IntentKind) -> Run:
        run = a_run(kind)
        return replace(run, orders=replace(run.orders, extra_disks=(Disk(DiskSerial("d9")),)))

    assert ask(with_extra(IntentKind.WIPE), serial="d9") == Granted()
    assert isinstance(ask(with_extra(IntentKind.PROVISION), serial="d9"), NotNow)


def test_a_cancelled_run_gets_no_leave_and_is_told_to_stop() -> None:
    answer = ask(a_run(), cancelled=True)

    assert isinstance(answer, NotNow)
    assert answer.stop


def test_a_clock_that_went_back_grants_nothing_but_may_be_asked_again() -> None:
    answer = ask(a_run(), clock_ok=False)

    assert isinstance(answer, NotNow)
    assert not answer.stop


def test_the_image_is_written_only_after_the_erase_has_finished() -> None:
    assert isinstance(ask(a_run(), "write-image"), NotNow)
    assert ask(a_run(state="installing"), "write-image", finished={"erase"}) == Granted()


def test_a_written_image_is_not_erased_again() -> None:
    assert isinstance(ask(a_run(state="installing"), "erase", finished={"erase", "write-image"}), NotNow)


def test_a_wipe_writes_no_image() -> None:
    assert isinstance(ask(a_run(IntentKind.WIPE), "write-image", finished={"erase"}), NotNow)


def test_an_action_without_leave_is_refused_for_good() -> None:
    answer = ask(a_run(), "mkfs")

    assert isinstance(answer, NotNow)
    assert answer.stop
