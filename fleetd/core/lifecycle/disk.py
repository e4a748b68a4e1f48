"""The disk Workflow, the hand-over to what it wrote, and the first word of it."""

from dataclasses import replace
from datetime import timedelta

from fleetd.core.findings import Finding
from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle.decision import Decision, Moment, extended, fail, go, stay, succeed
from fleetd.core.lifecycle.effects import (
    AllowPxe,
    ArchiveWorkflow,
    CreateWorkflow,
    DeleteWorkflow,
    PowerJob,
    RemoveBmc,
    RemoveJobs,
)
from fleetd.core.lifecycle.observed import EventSeen
from fleetd.core.lifecycle.power import Drive, drive
from fleetd.core.lifecycle.states import (
    AwaitingCheck,
    Configuring,
    Erasing,
    HandingOver,
    Installing,
    PoweringDown,
)
from fleetd.core.lifecycle.timing import MOST_BOOTS
from fleetd.core.names import Family, IntentKind
from fleetd.core.outside import Part, PowerState, PowerStep, WorkflowOutcome, WorkflowSeen

LONG = ("erase", "write-image")
"""Actions that take as long as the disk is large: only standing still bounds them."""

ACTIONS = ("guard", "erase", "write-image", "write-seed", "set-boot", "finish")
"""The actions of a disk Workflow that report to fleetd."""

DOING = {
    "guard": "The machine looks for its declared disk.",
    "erase": "The disk is being erased.",
    "write-image": "The image is being written.",
    "write-seed": "What the system needs for its first boot is being written.",
    "set-boot": "The machine is being set to boot from its disk.",
    "finish": "The disk is being flushed.",
}
DONE = {
    "guard": "The declared disk is found.",
    "erase": "The disk is erased.",
    "write-image": "The image is written.",
    "write-seed": "The system is prepared for its first boot.",
    "set-boot": "The machine is set to boot from its disk.",
    "finish": "The disk is flushed.",
}
"""What an owner reads while an action runs, and when it has finished."""

TO_DISK = (PowerStep.OFF, PowerStep.BOOT_DISK, PowerStep.ON)

DISK_GONE = (ArchiveWorkflow(Part.DISK), DeleteWorkflow(Part.DISK), AllowPxe(allowed=False))


def on_disk(at: Moment, state: Erasing) -> Decision:
    """Follow erase and write by what the actions tell; the Workflow's end is latched on first sight."""
    disk = at.seen.disk
    if disk is None:
        return stay(at, message=_doing(at))
    if disk.outcome is WorkflowOutcome.ABSENT:
        return _absent(at)
    if disk.outcome is WorkflowOutcome.UNRENDERED and disk.problem:
        return fail(at, say.WorkflowNotRendered("disk", disk.problem))
    if disk.outcome in {WorkflowOutcome.FAILED, WorkflowOutcome.TIMEOUT}:
        return fail(at, _failure(at, disk))
    if disk.outcome is WorkflowOutcome.SUCCESS:
        return _success(at, state, disk)
    if isinstance(state, Installing) or "erase" not in at.seen.finished() or at.run.kind is not IntentKind.PROVISION:
        return _progress(at, state)
    until = at.now + at.deadlines.stall
    following = Installing(at.now, until, boots=state.boots, bmc_refused=state.bmc_refused)
    return go(at, following, message=_doing(at))


def _absent(at: Moment) -> Decision:
    """Before any leave a lost Workflow is created again; afterwards its disappearance is a failure."""
    if at.run.first_leave_at is None and not at.seen.finished():
        return stay(at, CreateWorkflow(Part.DISK), message="The disk Workflow was gone; creating it again.")
    return fail(at, say.ActionFailed(_action(at), "the Workflow was deleted while it ran"))


def _progress(at: Moment, state: Erasing) -> Decision:
    """Each event moves the deadline; a silent machine that is off is switched on again."""
    last = at.seen.last_event()
    allowed = at.deadlines.stall if _action(at) in LONG else at.deadlines.action
    heard = max(last.at if last else state.since, state.since)
    moved = extended(state, heard + allowed)
    message = _doing(at)
    silence = at.timing.silence + (at.seen.machine_class.quirks.report_delay if at.seen.machine_class else timedelta())
    if at.now < heard + silence or not at.has_bmc or state.bmc_refused or at.seen.power is not PowerState.OFF:
        return replace(stay(at, message=message), state=moved)
    if state.boots >= MOST_BOOTS:
        return replace(stay(at, message=f"{message} The machine is off."), state=moved)
    assert isinstance(moved, Erasing)
    if at.seen.job is None or state.boots == 0 or at.now >= heard + silence * (state.boots + 1):
        again = replace(moved, boots=state.boots + 1)
        job = PowerJob(again.job, (PowerStep.BOOT_NETWORK, PowerStep.ON))
        return replace(stay(at, job, message=f"{message} The machine is off; starting it again."), state=again)
    return replace(stay(at, message=message), state=moved)


def _success(at: Moment, state: Erasing, disk: WorkflowSeen) -> Decision:
    missing = _unreported(at, disk)
    since = state.succeeded_at or at.now
    if missing and at.now < since + at.timing.evidence:
        waiting = replace(state, succeeded_at=since)
        return replace(stay(at, message=f"Waiting for the evidence of: {', '.join(missing)}."), state=waiting)
    if missing:
        return fail(at, say.EvidenceMissing("disk", missing))
    if state.bmc_refused:
        return fail(at, say.BmcRefused(at.run.orders.bmc_secret))
    if at.run.kind is IntentKind.PROVISION:
        following = HandingOver(at.now, at.now + at.deadlines.hand_over)
        return go(at, following, message="The disk is written; the machine reboots from it.")
    down = PoweringDown(at.now, at.now + at.deadlines.power)
    return go(at, down, message="The disk is erased; switching the machine off.")


def _unreported(at: Moment, disk: WorkflowSeen) -> tuple[str, ...]:
    needed = {"erase", "write-image"} if at.run.kind is IntentKind.PROVISION else {"erase"}
    needed |= {action.name for action in disk.actions if action.name in ACTIONS}
    return tuple(name for name in ACTIONS if name in needed - at.seen.finished())


def _failure(at: Moment, disk: WorkflowSeen) -> Finding:
    told = at.seen.failure()
    if told is None:
        ended = [action.name for action in disk.actions if action.state.upper() in {"FAILED", "TIMEOUT"}]
        return say.ActionFailed(ended[-1] if ended else _action(at), "it said nothing")
    return named_failure(told)


def named_failure(told: EventSeen) -> Finding:
    """Return the finding for an action that said why it failed."""
    text = told.message.rstrip(".") or "it said nothing"
    match told.action:
        case "guard":
            return say.DiskRefused(text)
        case "erase":
            return say.EraseFailed(text)
        case "write-image":
            return say.ImageRefused(text)
        case _:
            return say.ActionFailed(told.action, text)


def stalled(at: Moment) -> Decision:
    """Fail for want of progress, or for the failure that an action told of and its Workflow never showed."""
    told, last = at.seen.failure(), at.seen.last_event()
    return fail(at, named_failure(told) if told else say.Stalled(_action(at), last.at if last else at.run.state.since))


def _action(at: Moment) -> str:
    last = at.seen.last_event()
    return last.action if last else ""


def _doing(at: Moment) -> str:
    """Say which action works on the disk now, or which one is waited for."""
    last = next((event for event in reversed(at.seen.events) if event.action in ACTIONS), None)
    if last is None:
        return "Waiting for the machine to begin with its disk."
    if last.kind == "failed":
        return named_failure(last).sentence()
    if last.kind != "finished":
        return DOING[last.action]
    return f"{DONE[last.action]} Waiting for what the machine does next."


def handing_over(at: Moment, state: HandingOver) -> Decision:
    """Reboot from the disk by BMC, or let the machine do it itself."""
    if not state.ready:
        gone = DISK_GONE if at.run.kind is IntentKind.PROVISION else (AllowPxe(allowed=False),)
        return replace(
            stay(at, *gone, message="The machine reboots from its disk.", again=at.now),
            state=replace(state, ready=True),
        )
    if not at.has_bmc:
        if at.run.reboot_told_at is None and not _speaks_from_disk(at, state):
            return stay(at, message="Waiting for the machine to reboot itself.", again=at.later)
        return _handed_over(at)
    driven = drive(at, state, TO_DISK, "The BMC reboots the machine from its disk.")
    if isinstance(driven, Decision):
        return driven
    if driven is Drive.REFUSED:
        return fail(at, say.BmcRefused(at.run.orders.bmc_secret), effects=(RemoveBmc(),))
    return _handed_over(at)


def _handed_over(at: Moment) -> Decision:
    if at.run.kind is IntentKind.ATTEST:
        following = AwaitingCheck(at.now, at.now + at.timing.check)
        return go(at, following, message="Waiting for a boot check of the installed system.")
    rules = at.seen.machine_class
    if rules is not None and rules.family is Family.CLOUD_INIT_NOCLOUD:
        return succeed(at, RemoveJobs(), message="Active: the seed was on the disk before the first boot.")
    until = at.now + (
        at.deadlines.to_configure(rules.family) if rules else at.deadlines.to_configure(Family.ALPINE_IMAGE)
    )
    return go(at, Configuring(at.now, until), message="Waiting for the installed system to fetch its seed.")


def hand_over_failed(at: Moment) -> Decision:
    """Fail after the deadline."""
    problem = at.seen.job.problem if at.seen.job else ""
    return fail(at, say.HandOverFailed(problem))


def configuring(at: Moment) -> Decision:
    """Wait for the redemption: then the machine is active."""
    if at.run.redeemed_at is not None:
        return succeed(at, RemoveJobs(), message="Active: the installed system fetched its seed.")
    return stay(at, message="Waiting for the installed system to fetch its seed.", again=at.later)


def seed_never_fetched(at: Moment) -> Decision:
    """Fail after the deadline."""
    return fail(at, say.SeedNeverFetched(at.seen.last_seen))


def _speaks_from_disk(at: Moment, state: HandingOver) -> bool:
    """Somebody else rebooted the machine: only the installed system redeems and sends checks."""
    checked = at.seen.check is not None and at.seen.check.at > state.since
    return at.run.redeemed_at is not None or checked
