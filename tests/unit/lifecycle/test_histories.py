"""Random histories of a run: whatever is seen in whatever order, the invariants hold and the run ends."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from fleetd.core.lifecycle import effects as do
from fleetd.core.lifecycle.decide import decide, give_up, refuse
from fleetd.core.lifecycle.leave import DESTRUCTIVE, Granted, may_start
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import Ended, Ending, Gated, Outcome
from fleetd.core.lifecycle.table import EVENTS, NOW, quiet
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import DiskSerial, IntentKind
from fleetd.core.outside import Part

TIMING = Timing()
STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(EVENTS), min_size=1, max_size=3),
        st.sampled_from([timedelta(seconds=5), timedelta(minutes=2), timedelta(minutes=20), timedelta(hours=30)]),
        st.sampled_from(["", "", "", "refuse", "outage"]),
    ),
    max_size=25,
)


class History:
    """One run through one history, with what it did outside."""

    def __init__(self, kind: IntentKind, was_active: bool, bmc: bool) -> None:
        self.now = NOW
        run, self.seen = quiet(kind, Gated(NOW, NOW + timedelta(days=7)))
        if not bmc:
            bare = replace(run.orders, bmc_address="", bmc_secret="")
            run = replace(run, orders=bare)
            self.seen = replace(self.seen, declaration=bare, job=None, power=None)
        self.run = replace(run, was_active=was_active)
        self.pxe = False
        self.proven = False
        self.revoked = False
        self.latched: tuple[Outcome, str] | None = None

    def step(self, events, passes: timedelta, trouble: str) -> None:
        self.now += passes
        run, seen = self.run, self.seen
        for event in events:
            run, seen = event.happen(run, seen)
        run = replace(run, state=self.run.state)
        self.proven |= seen.verdict is not None and seen.verdict.state == "passed"
        if trouble == "refuse":
            decision = refuse(run, seen, self.now, "no", TIMING)
        elif trouble == "outage":
            decision = give_up(run, seen, self.now, TIMING) if run.late(self.now, outage=True) else None
        else:
            decision = decide(run, seen, self.now, TIMING)
        if decision is None:
            return
        self.check(run, decision)
        self.run = replace(self.run, state=decision.state, orders=decision.orders or self.run.orders)

    def check(self, run: Run, decision) -> None:
        for effect in decision.effects:
            if isinstance(effect, do.AllowPxe):
                self.pxe = effect.allowed
            if effect == do.CreateWorkflow(Part.DISK):
                assert self.proven, "the disk Workflow exists only after the machine is proven in this run"
                assert run.kind.erases
            self.revoked |= isinstance(effect, do.RevokeCertificates)
        if isinstance(run.state, Ended):
            assert decision.state == run.state
            assert decision.effects == ()
        if isinstance(decision.state, Ending | Ended):
            told = (decision.state.outcome, decision.state.code)
            assert self.latched in {None, told}, "a latched outcome stays"
            self.latched = told
        if isinstance(decision.state, Ended):
            assert not self.pxe, "netboot is closed when the run is over"
            if decision.state.outcome is Outcome.SUCCEEDED and run.kind in {IntentKind.WIPE, IntentKind.RETIRE}:
                assert self.revoked
        self.leaves(replace(run, state=decision.state))

    def leaves(self, run: Run) -> None:
        for action in DESTRUCTIVE:
            for serial in ("d1", "d2"):
                answer = may_start(run, action, DiskSerial(serial), finished={"erase"}, cancelled=False, clock_ok=True)
                if isinstance(answer, Granted):
                    assert serial == "d1"
                    assert self.proven


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(IntentKind), st.booleans(), st.booleans(), STEPS)
def test_the_invariants_hold_in_every_history(kind: IntentKind, was_active: bool, bmc: bool, steps) -> None:
    history = History(kind, was_active, bmc)

    for events, passes, trouble in steps:
        history.step(events, passes, trouble)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(IntentKind), st.booleans(), st.booleans(), STEPS)
def test_every_run_ends_when_time_passes(kind: IntentKind, was_active: bool, bmc: bool, steps) -> None:
    history = History(kind, was_active, bmc)
    for events, passes, trouble in steps:
        history.step(events, passes, trouble)

    for _ in range(80):
        history.step([EVENTS[0]], timedelta(days=15), "")

    assert isinstance(history.run.state, Ended), history.run.state
