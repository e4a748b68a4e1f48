"""fleetd killed between any two things that it does or writes: every intent ends as if it had not been."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from sqlalchemy import event

from fleetd.app import look as look_module
from fleetd.core.classes import Deadlines
from fleetd.core.names import IntentKind, MachineId
from fleetd.core.outside import PowerState
from fleetd.store.machines import MachineRow
from tests.integration.app.conftest import fresh_stage
from tests.integration.app.test_walks import active
from tests.worlds import Stage, a_class, an_intent

M = MachineId(7)
LEASE = timedelta(seconds=20)
ALONE = 12
"""At how many points of a walk, evenly spread, a process dies alone: a soak takes each, and the other test all in one walk."""


class KilledError(BaseException):
    """The process is gone: nothing of it catches this."""


@dataclass
class Killer:
    """Counts the points at which a process can die, and dies at those that are asked for."""

    only: int | None = None
    """Die at this point alone; None: at each point once, the first time it is reached."""
    died: list[str] = field(default_factory=list)
    passed: int = 0
    state: str = ""

    def point(self, name: str) -> None:
        place = f"{self.state}: {name}"
        self.passed += 1
        dies = place not in self.died if self.only is None else self.passed == self.only
        if dies:
            self.died.append(place)
            raise KilledError(place)


@contextmanager
def deadly(stage: Stage, killer: Killer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let looks die before and after each effect and each commit."""
    perform = look_module.perform
    inside = [False]

    def killing(effect, run, world):
        killer.state = run.state.name
        killer.point(f"before {effect}")
        inside[0] = True
        perform(effect, run, world)
        inside[0] = False
        killer.point(f"after {effect}")

    decide = look_module.decide

    def deciding(run, *rest):
        killer.state = run.state.name
        return decide(run, *rest)

    def before(session):
        if not inside[0]:
            killer.point(f"before commit of {writer()}")

    def after(session):
        if not inside[0]:
            killer.point(f"after commit of {writer()}")

    factory = stage.sessions
    monkeypatch.setattr(look_module, "perform", killing)
    monkeypatch.setattr(look_module, "decide", deciding)
    event.listen(factory, "before_commit", before)
    event.listen(factory, "after_commit", after)
    try:
        yield
    finally:
        event.remove(factory, "before_commit", before)
        event.remove(factory, "after_commit", after)
        monkeypatch.setattr(look_module, "perform", perform)
        monkeypatch.setattr(look_module, "decide", decide)


def writer() -> str:
    """Name the function of fleetd that commits."""
    frame = sys._getframe(1)
    while frame is not None and "/fleetd/app/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_name if frame else ""


def look_and_die(stage: Stage, killer: Killer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the machine in a process that may die, and start another one until one lives through it."""
    for _ in range(60):
        try:
            with deadly(stage, killer, monkeypatch):
                look_module.look_at(M, stage.world())
        except KilledError:
            stage.clock.at += LEASE + timedelta(seconds=1)
            continue
        return
    raise AssertionError("dies for ever")


def walk_and_die(stage: Stage, killer: Killer, monkeypatch: pytest.MonkeyPatch, checks: bool) -> None:
    for _ in range(60):
        if not stage.netbox.away:
            from fleetd.app.poll import poll

            poll(stage.world())
        with stage.sessions() as session:
            row = session.get(MachineRow, M)
            due = row is not None and row.next_look_at is not None and row.next_look_at <= stage.clock.now()
        if due:
            look_and_die(stage, killer, monkeypatch)
        if stage.ended():
            break
        stage.live()
        if checks and stage.machine().run_id and stage.run().state_name == "awaiting-check":
            stage.clock.pass_by(seconds=1)
            stage.check()
        stage.clock.pass_by(seconds=60 if stage.machine().run_id and stage.run().state_name == "ending" else 6)
    stage.turn()


CASES = {
    "provision": (IntentKind.PROVISION, False, {}, "succeeded"),
    "provision again": (IntentKind.PROVISION, True, {}, "succeeded"),
    "attest of new hardware": (IntentKind.ATTEST, False, {}, "succeeded"),
    "attest by check": (IntentKind.ATTEST, True, {}, "succeeded"),
    "attest with reboot": (IntentKind.ATTEST, True, {"reboot": True}, "succeeded"),
    "wipe": (IntentKind.WIPE, True, {}, "succeeded"),
    "retire": (IntentKind.RETIRE, True, {}, "succeeded"),
    "failed write": (IntentKind.PROVISION, False, {"reason": "fail"}, "failed"),
}


def prepare(stage: Stage, kind: IntentKind, was_active: bool, changes: dict) -> None:
    long = Deadlines(
        **{name: timedelta(days=1) for name in ("power", "netboot", "attest", "action", "stall", "hand_over")}
    )
    stage.classes.classes["lab-alpine"] = a_class(deadlines=replace(long, configure=timedelta(days=1)))
    if was_active:
        active(stage)
        stage.erased.clear()
    stage.settings = replace(stage.settings, lease=LEASE)
    if changes.get("reason") == "fail":
        stage.failing["write-image"] = "sha256 differs"
    stage.netbox.ask(an_intent(kind, **changes))


def holds(stage: Stage, kind: IntentKind, outcome: str) -> None:
    """What is true at the end of every intent, however often fleetd died."""
    run = stage.run()
    assert (run.state_name, run.outcome) == ("ended", outcome), (run.code, run.message)
    assert stage.tinkerbell.workflows == {}
    assert not any(stage.tinkerbell.allowed.values())
    assert len(stage.tinkerbell.created) == len(set(stage.tinkerbell.created)), "a Workflow was made twice"
    assert len(stage.erased) == int(kind.erases), "erased as often as asked"
    assert not stage.machine().pxe_open
    assert stage.netbox.shown()["intent"]["state"] == outcome
    if kind in {IntentKind.WIPE, IntentKind.RETIRE}:
        assert M in stage.authority.revoked
        assert stage.bmc.power[M] is PowerState.OFF
    if kind is IntentKind.RETIRE:
        assert stage.tinkerbell.hardware == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_dying_once_at_every_point_changes_no_end(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    kind, was_active, changes, outcome = CASES[name]
    prepare(stage, kind, was_active, changes)
    killer = Killer()

    walk_and_die(stage, killer, monkeypatch, checks=kind is IntentKind.ATTEST)

    with capsys.disabled():
        sys.stdout.write(f" {name}: died at {len(killer.died)} points ")
    holds(stage, kind, outcome)
    assert len(killer.died) >= (8 if name == "attest by check" else 20)


@pytest.mark.slow
@pytest.mark.parametrize("most", [ALONE, pytest.param(None, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("name", CASES)
def test_dying_at_one_point_alone_changes_no_end(
    engine, name: str, most: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    kind, _, _, outcome = CASES[name]

    def walk(only: int) -> tuple[Stage, Killer]:
        stage, killer = fresh_stage(engine), Killer(only)
        prepare(stage, *CASES[name][:3])
        walk_and_die(stage, killer, monkeypatch, checks=kind is IntentKind.ATTEST)
        return stage, killer

    stage, unharmed = walk(only=0)
    holds(stage, kind, outcome)
    points = range(1, unharmed.passed + 1)
    chosen = points if most is None else points[:: -(-len(points) // most)]
    for point in chosen:
        stage, killer = walk(point)
        assert killer.died, f"nobody came to point {point} of {len(points)}"
        holds(stage, kind, outcome)
    with capsys.disabled():
        sys.stdout.write(f" {name}: {len(chosen)} of {len(points)} points ")
    assert len(chosen) >= 6
