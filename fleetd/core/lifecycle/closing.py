"""How runs end: the check that was asked for, verified power-off, withdrawal, and tidying after a failure."""

from collections.abc import Iterator
from dataclasses import replace

from fleetd.core.findings import Finding
from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle.decision import Decision, Moment, fail, go, stay, succeed
from fleetd.core.lifecycle.disk import TO_DISK
from fleetd.core.lifecycle.effects import (
    AllowPxe,
    ArchiveBaseline,
    ArchiveWorkflow,
    BanAgents,
    DeleteWorkflow,
    Effect,
    NoteDeed,
    RemoveBmc,
    RemoveHardware,
    RemoveJobs,
    RemoveReservation,
    RevokeCertificates,
    SignRetirement,
    VoidTickets,
)
from fleetd.core.lifecycle.power import Drive, drive
from fleetd.core.lifecycle.states import Ended, Ending, PoweringDown, Withdrawing
from fleetd.core.names import IntentKind
from fleetd.core.outside import JobOutcome, Part, PowerState, PowerStep, WorkflowOutcome

OFF = (PowerStep.OFF,)
_NO_CHECK = frozenset({"late", "lost"})
"""What a machine becomes by sending none: no result of a check."""


def awaiting_check(at: Moment) -> Decision:
    """Wait for a check that is younger than the state."""
    check = at.seen.check
    if check is None or check.at <= at.run.state.since or check.result in _NO_CHECK:
        return stay(at, message="Waiting for the next boot check of the installed system.", again=at.later)
    if check.result == "ok":
        return succeed(at, RemoveJobs(), message="The installed system proved itself.")
    return fail(at, say.CheckNotGood(check.result, check.codes))


def check_never_came(at: Moment) -> Decision:
    """Fail after the deadline."""
    return fail(at, say.CheckNeverCame())


def powering_down(at: Moment, state: PoweringDown) -> Decision:
    """Switch off and see that it is off; without a BMC say that nobody verified it."""
    if not state.cleared:
        gone = disk_gone(at)
        return replace(
            stay(at, *gone, message="Switching the machine off.", again=at.now), state=replace(state, cleared=True)
        )
    if not at.has_bmc:
        return _after_power(at, (say.PowerOffByPerson(),))
    if at.seen.power is PowerState.OFF:
        return _after_power(at, ())
    driven = drive(at, state, OFF, "Switching the machine off.")
    if isinstance(driven, Decision):
        return driven
    if driven is Drive.REFUSED:
        return bmc_refused(at)
    return stay(at, message="Waiting for the BMC to say that the machine is off.")


def bmc_refused(at: Moment) -> Decision:
    """End a run whose BMC refuses the credentials: nothing is asked of it again."""
    return _not_off(at, "the BMC refused the credentials", (RemoveBmc(),))


def disk_gone(at: Moment) -> tuple[Effect, ...]:
    """Return what removes the disk Workflow of a run that has one, and closes the netboot."""
    closed = AllowPxe(allowed=False)
    return (ArchiveWorkflow(Part.DISK), DeleteWorkflow(Part.DISK), closed) if at.run.kind.erases else (closed,)


def power_off_late(at: Moment) -> Decision:
    """Go on where power does not decide; fail a wipe or retirement that must have it verified."""
    return _not_off(at, at.seen.job.problem if at.seen.job else "", ())


def _not_off(at: Moment, problem: str, effects: tuple[Effect, ...]) -> Decision:
    finding = say.PowerOffNotVerified(problem)
    if at.run.kind is IntentKind.ATTEST or at.run.given_up:
        decision = _after_power(at, (finding,))
        return replace(decision, effects=(*effects, *decision.effects))
    return fail(at, finding, effects=effects)


def _after_power(at: Moment, findings: tuple[Finding, ...]) -> Decision:
    lost = (say.DeclaredLost(at.run.lost_by),) if at.run.given_up else ()
    said = findings[0].sentence() if findings else "The BMC says that the machine is off."
    off = NoteDeed("power-off", said)
    if at.run.kind is IntentKind.RETIRE:
        following = Withdrawing(at.now, at.now + max(at.timing.tidy, at.deadlines.intent_approval))
        words = "Withdrawing what the machine holds."
        return go(at, following, *(() if _off_by_person(at) else (off,)), message=words, findings=(*findings, *lost))
    if at.run.kind is IntentKind.ATTEST:
        return succeed(at, RemoveJobs(), message="The machine is attested.", findings=(*findings, *lost))
    left = (say.DisksLeft(at.seen.undeclared),) if at.seen.undeclared and not lost else ()
    return succeed(at, off, RemoveJobs(), message="The machine is wiped.", findings=(*findings, *lost, *left))


def _off_by_person(at: Moment) -> bool:
    """Whether nobody but a person can say that the machine is off."""
    return not at.has_bmc and not at.run.given_up


def withdrawing(at: Moment) -> Decision:
    """Take back everything; the certificates were revoked before the erase and are looked at once more.

    What fleetd cannot see for itself needs a person's word first: that a machine without a BMC is off, and that a disk
    which nobody declared may leave with its data.
    """
    wanted = tuple(_words_wanted(at))
    if wanted:
        return stay(at, message=wanted[0].sentence(), findings=wanted, again=at.later)
    gone: tuple[Effect, ...] = (
        RevokeCertificates(),
        VoidTickets(),
        BanAgents(),
        *((NoteDeed("power-off", "A person gave their word that the machine is off."),) if _off_by_person(at) else ()),
        *_workflows_gone(at),
        RemoveJobs(),
        RemoveHardware(),
        RemoveBmc(),
        RemoveReservation(),
        ArchiveBaseline(),
        SignRetirement(),
    )
    return succeed(at, *gone, message="The machine is retired.")


def _words_wanted(at: Moment) -> Iterator[Finding]:
    if at.run.given_up:
        return
    if not at.has_bmc and not at.seen.off_vouched:
        yield say.PowerOffWordWanted()
    if at.seen.undeclared:
        yield say.DiskWordWanted(at.seen.undeclared)


def word_never_came(at: Moment) -> Decision:
    """Fail after the deadline; the credentials stay withdrawn."""
    return fail(at, *(tuple(_words_wanted(at)) or (say.StepRefused(at.seen.outage),)))


def _workflows_gone(at: Moment) -> tuple[Effect, ...]:
    del at
    return tuple(effect(part) for part in Part for effect in (ArchiveWorkflow, DeleteWorkflow))


def ending(at: Moment, state: Ending) -> Decision:
    """Tidy after an outcome that is no success: netboot closed, Workflows gone, power off when its time has come."""
    if not state.closed:
        close = (AllowPxe(allowed=False), VoidTickets())
        return replace(stay(at, *close, again=at.now), state=replace(state, closed=True))
    effects: list[Effect] = [AllowPxe(allowed=False)] if at.seen.pxe_open else []
    rebooted = state.to_disk and at.seen.job is not None and at.seen.job.outcome is JobOutcome.COMPLETED
    stopped = at.seen.power is PowerState.OFF or rebooted
    waits = ""
    for part in Part:
        seen = at.seen.workflow(part)
        if seen is None:
            waits = "Waiting for Tinkerbell."
        elif seen.outcome is WorkflowOutcome.RUNNING and not stopped:
            waits = "Waiting for the machine to end its action, or to be off."
        elif seen.outcome is not WorkflowOutcome.ABSENT:
            effects += [ArchiveWorkflow(part), DeleteWorkflow(part)]
    if _replaced(at):
        return _tidied(at, state, effects)
    if at.seen.bmc_refused:
        return _rest(at, replace(state, power_off_at=None), [*effects, RemoveBmc()], waits)
    if state.power_off_at is None or not at.has_bmc or stopped:
        return _rest(at, state, effects, waits)
    return _power(at, state, effects, waits)


def _power(at: Moment, state: Ending, effects: list[Effect], waits: str) -> Decision:
    assert state.power_off_at is not None
    if at.now < state.power_off_at:
        return stay(at, *effects, message="The machine is switched off later.", again=min(state.power_off_at, at.later))
    words = "Rebooting the machine from its disk." if state.to_disk else "Switching the machine off."
    driven = drive(at, state, TO_DISK if state.to_disk else OFF, words)
    if isinstance(driven, Decision):
        return replace(driven, effects=(*effects, *driven.effects))
    if driven is Drive.DONE:
        return stay(at, *effects, message="Waiting for the BMC to say that the machine is off.")
    return _rest(at, replace(state, power_off_at=None), [*effects, RemoveBmc()], waits)


def _rest(at: Moment, state: Ending, effects: list[Effect], waits: str) -> Decision:
    if waits and state != at.run.state:
        return replace(stay(at, *effects, message=waits), state=state)
    if waits:
        return stay(at, *effects, message=waits, again=at.later)
    if any(isinstance(effect, DeleteWorkflow) for effect in effects):
        return stay(at, *effects, again=at.now)
    return _tidied(at, state, effects)


def _tidied(at: Moment, state: Ending, effects: list[Effect]) -> Decision:
    done = Ended(at.now, at.now, state.outcome, state.code)
    return Decision(done, (*effects, RemoveJobs()), None)


def tidied_late(at: Moment, state: Ending) -> Decision:
    """Stop tidying: netboot is closed all the same, and the next run clears the rest before it begins."""
    return Decision(Ended(at.now, at.now, state.outcome, state.code), (AllowPxe(allowed=False),), None)


def _replaced(at: Moment) -> bool:
    """Tell whether another approved request waits: its run tidies the rest itself, and with power off first."""
    intent = at.seen.declaration.intent if at.seen.declaration else None
    return intent is not None and intent.id != at.run.id and intent.approved
