"""The table of every state and every thing that can be seen in it, made by asking `decide`.

`python -m fleetd.core.lifecycle.table` prints docs/reference/lifecycle-states.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration, DeclaredKey, Disk, Intent, Interface
from fleetd.core.findings.identity import KeyNotApproved
from fleetd.core.identity import shown
from fleetd.core.lifecycle.decide import decide
from fleetd.core.lifecycle.decision import Decision
from fleetd.core.lifecycle.observed import CheckSeen, EventSeen, GateSeen, Observed, VerdictSeen
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import STATES, Ended, Ending, Outcome, State
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import DiskSerial, Family, IntentKind, MacAddress, MachineId, Phase, RunId
from fleetd.core.outside import JobOutcome, JobSeen, Part, PowerState, WorkflowOutcome, WorkflowSeen

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RUN = RunId(UUID(int=1))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that can be seen or have happened, as a change of a quiet world."""

    name: str
    happen: Callable[[Run, Observed], tuple[Run, Observed]]


def declared(kind: IntentKind = IntentKind.PROVISION) -> Declaration:
    """Return a complete declaration whose intent is that of the sample run."""
    intent = Intent(RUN, kind, approved=True, requested_by="anna", requested_at=NOW, confirmed_serial=DiskSerial("d1"))
    return Declaration(
        machine=MachineId(1),
        node_name="node1",
        machine_class="sample",
        disk=Disk(DiskSerial("d1")),
        extra_disks=(),
        bmc_address="192.0.2.1",
        bmc_secret="bmc1",  # noqa: S106 -- the name of a Secret
        phase=Phase.DECLARED,
        device_name="node1",
        device_status="planned",
        device_serial="",
        site="",
        role="",
        primary_ip4="",
        primary_ip6="",
        interfaces=(Interface("eth0", (MacAddress("52:54:00:00:00:01"),)),),
        addresses=(),
        keys=(),
        tags=(),
        intent=intent,
    )


def sample_state(kind: type[State]) -> State:
    """Return a state of that kind which began a minute ago."""
    values: dict[str, object] = {"since": NOW - timedelta(minutes=1), "deadline": NOW + timedelta(minutes=14)}
    names = {field.name for field in fields(kind)}
    if "outcome" in names:
        values |= {"outcome": Outcome.FAILED, "code": "sample"}
    if "tried_at" in names:
        values["tried_at"] = NOW - timedelta(seconds=30)
    if "ready" in names:
        values["ready"] = True
    for done in ("cleared", "closed"):
        if done in names:
            values[done] = True
    return kind(**values)  # type: ignore[arg-type]


def quiet(kind: IntentKind, state: State) -> tuple[Run, Observed]:
    """Return a run in that state and a world in which nothing has happened."""
    orders = declared(kind)
    run = Run(RUN, MachineId(1), kind, state, orders, was_active=False)
    part = Part.DISK if state.name in {"erasing", "installing"} else Part.ATTEST
    flow = WorkflowSeen("w", WorkflowOutcome.PENDING)
    absent = WorkflowSeen("", WorkflowOutcome.ABSENT)
    seen = Observed(
        declaration=orders,
        fresh=True,
        machine_class=MachineClass("sample", Family.ALPINE_IMAGE, "d", None),
        gate=GateSeen(),
        attest=flow if part is Part.ATTEST else absent,
        disk=flow if part is Part.DISK else absent,
        job=JobSeen(JobOutcome.RUNNING),
        power=PowerState.ON,
        strays=(),
        last_seen=NOW - timedelta(seconds=10),
    )
    return run, seen


def _flow(outcome: WorkflowOutcome, problem: str = "") -> Callable[[Run, Observed], tuple[Run, Observed]]:
    def happen(run: Run, seen: Observed) -> tuple[Run, Observed]:
        flow = WorkflowSeen("w", outcome, problem=problem)
        if run.state.name in {"erasing", "installing"}:
            return run, replace(seen, disk=flow)
        return run, replace(seen, attest=flow)

    return happen


def _seen(**changes: object) -> Callable[[Run, Observed], tuple[Run, Observed]]:
    return lambda run, seen: (run, replace(seen, **changes))  # type: ignore[arg-type]


def _run(**changes: object) -> Callable[[Run, Observed], tuple[Run, Observed]]:
    return lambda run, seen: (replace(run, **changes), seen)  # type: ignore[arg-type]


def _intent(**changes: object) -> Callable[[Run, Observed], tuple[Run, Observed]]:
    def happen(run: Run, seen: Observed) -> tuple[Run, Observed]:
        if seen.declaration is None or seen.declaration.intent is None:
            return run, seen
        intent = replace(seen.declaration.intent, **changes)  # type: ignore[arg-type]
        return run, replace(seen, declaration=replace(seen.declaration, intent=intent))

    return happen


def _declaration(**changes: object) -> Callable[[Run, Observed], tuple[Run, Observed]]:
    def happen(run: Run, seen: Observed) -> tuple[Run, Observed]:
        assert seen.declaration is not None
        return run, replace(seen, declaration=replace(seen.declaration, **changes))  # type: ignore[arg-type]

    return happen


def _told(action: str, kind: str, message: str = "") -> EventSeen:
    return EventSeen(action, kind, NOW - timedelta(seconds=5), message)


ALL_DONE = tuple(
    _told(name, "finished") for name in ("guard", "erase", "write-image", "write-seed", "set-boot", "finish")
)


def _all_done(run: Run, seen: Observed) -> tuple[Run, Observed]:
    done = WorkflowSeen("w", WorkflowOutcome.SUCCESS)
    return replace(run, first_leave_at=NOW - timedelta(minutes=5)), replace(seen, disk=done, events=ALL_DONE)


def _late(run: Run, seen: Observed) -> tuple[Run, Observed]:
    state = replace(run.state, since=NOW - timedelta(hours=2), deadline=NOW - timedelta(minutes=1))
    return replace(run, state=state), seen


def _late_in_outage(run: Run, seen: Observed) -> tuple[Run, Observed]:
    run, seen = _late(run, seen)
    return run, replace(seen, attest=None, disk=None, job=None, power=None, strays=None, outage="Tinkerbell is away")


def _rejected(run: Run, seen: Observed) -> tuple[Run, Observed]:
    assert seen.declaration is not None
    key = DeclaredKey(1, "ab" * 32, "", "rejected")
    waits = VerdictSeen("waiting", NOW, findings=(KeyNotApproved(shown(key.public_hash)).as_dict(),))
    return run, replace(seen, verdict=waits, declaration=replace(seen.declaration, keys=(key,)))


EVENTS = (
    Event("nothing new", lambda run, seen: (run, seen)),
    Event("Workflow absent", _flow(WorkflowOutcome.ABSENT)),
    Event("Workflow not rendered", _flow(WorkflowOutcome.UNRENDERED, "missing key")),
    Event("Workflow running", _flow(WorkflowOutcome.RUNNING)),
    Event("Workflow succeeded", _flow(WorkflowOutcome.SUCCESS)),
    Event("Workflow failed", _flow(WorkflowOutcome.FAILED)),
    Event("Workflow timed out", _flow(WorkflowOutcome.TIMEOUT)),
    Event("enrollment waits for a person", _seen(verdict=VerdictSeen("waiting", NOW))),
    Event("the only key that waits was rejected", _rejected),
    Event(
        "enrollment passed",
        _seen(verdict=VerdictSeen("passed", NOW), attest=WorkflowSeen("w", WorkflowOutcome.SUCCESS)),
    ),
    Event("enrollment refused", _seen(verdict=VerdictSeen("refused", NOW, ("pcr",)))),
    Event("every action finished", _all_done),
    Event(
        "erase finished", _seen(events=(_told("erase", "finished"),), disk=WorkflowSeen("w", WorkflowOutcome.RUNNING))
    ),
    Event(
        "action failed",
        _seen(events=(_told("erase", "failed", "read-back differs"),), disk=WorkflowSeen("w", WorkflowOutcome.FAILED)),
    ),
    Event("power job completed", _seen(job=JobSeen(JobOutcome.COMPLETED))),
    Event("power job failed", _seen(job=JobSeen(JobOutcome.FAILED, "no route"))),
    Event("BMC refused the credentials", _seen(job=JobSeen(JobOutcome.CREDENTIALS_REFUSED))),
    Event("BMC refused to tell the power state", _seen(bmc_refused=True, power=None)),
    Event("power is off", _seen(power=PowerState.OFF)),
    Event("leftover Workflows", _seen(strays=("old",))),
    Event("undeclared disks", _seen(undeclared=("d9",))),
    Event("seed redeemed", _run(redeemed_at=NOW)),
    Event("reboot told", _run(reboot_told_at=NOW)),
    Event("good check", _seen(check=CheckSeen(NOW, "ok"))),
    Event("bad check", _seen(check=CheckSeen(NOW, "drifted", ("pcr",)))),
    Event("cancelled", _intent(cancel_requested_by="carl", cancel_requested_at=NOW)),
    Event("not approved", _intent(approved=False)),
    Event("another intent approved", _intent(id=RunId(UUID(int=2)), kind=IntentKind.RETIRE)),
    Event("intent taken back", _declaration(intent=None)),
    Event("declaration changed", _declaration(disk=Disk(DiskSerial("d2")))),
    Event("record vanished", _seen(vanished=True)),
    Event("declared lost", _run(lost_by="bea")),
    Event("NetBox away", _seen(fresh=False, outage="NetBox is away")),
    Event(
        "Tinkerbell away", _seen(attest=None, disk=None, job=None, power=None, strays=None, outage="Tinkerbell is away")
    ),
    Event("clock behind", _seen(clock_ok=False)),
    Event("budget full", _seen(gate=GateSeen(budget_full="1 of 3 out of service, 1 allowed"))),
    Event("deadline passed", _late),
    Event("deadline passed in an outage", _late_in_outage),
)
"""What can happen, in the order of the table's rows."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What follows in one state from one event."""

    kind: IntentKind
    state: str
    event: str
    decision: Decision

    @property
    def words(self) -> str:
        """Return the next state, with the outcome where there is one, and the reason."""
        state = self.decision.state
        text = state.name
        if isinstance(state, Ending | Ended):
            text += f" ({state.outcome.value}{': ' + state.code if state.code else ''})"
        effects = ", ".join(dict.fromkeys(type(effect).__name__ for effect in self.decision.effects))
        return f"{text}; {effects}" if effects else text


def cells() -> Iterator[Cell]:
    """Decide every pair of state and event, for every kind of intent."""
    for kind in IntentKind:
        for name, state_kind in STATES.items():
            for event in EVENTS:
                run, seen = event.happen(*quiet(kind, sample_state(state_kind)))
                yield Cell(kind, name, event.name, decide(run, seen, NOW, Timing()))


UNREACHED = {
    IntentKind.PROVISION: {"awaiting-check", "powering-down", "withdrawing"},
    IntentKind.ATTEST: {"erasing", "installing", "configuring", "withdrawing"},
    IntentKind.WIPE: {"installing", "handing-over", "configuring", "awaiting-check", "withdrawing"},
    IntentKind.RETIRE: {"installing", "handing-over", "configuring", "awaiting-check"},
}
"""States that a run of the kind never comes to."""


def rows(kind: IntentKind) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield, for each state, what follows from each event."""
    table: dict[str, dict[str, str]] = {}
    for cell in cells():
        if cell.kind is kind and cell.state not in UNREACHED[kind]:
            table.setdefault(cell.state, {})[cell.event] = cell.words
    yield from table.items()


def page() -> str:
    """Return the documentation page."""
    lines = [
        "# States of a run",
        "",
        "Generated by `python -m fleetd.core.lifecycle.table` from the engine itself: for every state and every thing that",
        "can be seen in it, the state that follows and what is done on the way. Events that change nothing are left out.",
        "The sample machine has a BMC and is not active yet.",
        "",
    ]
    for kind in IntentKind:
        lines += [f"## {kind.value}", "", "| state | event | becomes; effects |", "| --- | --- | --- |"]
        for state, row in rows(kind):
            quiet_words = row["nothing new"]
            lines.append(f"| **{state}** | nothing new | {quiet_words} |")
            lines += [
                f"| | {event} | {words} |"
                for event, words in row.items()
                if event != "nothing new" and words != quiet_words
            ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 -- this is what the module is run for
