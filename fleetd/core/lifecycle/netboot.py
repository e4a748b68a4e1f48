"""From the gate to a proven machine whose attest Workflow is gone."""

from dataclasses import replace
from datetime import timedelta

from fleetd.core.classes import PowerQuirks
from fleetd.core.findings import lifecycle as say
from fleetd.core.findings.identity import KeyNotApproved as KeyWaits
from fleetd.core.findings.identity import KeyRejected
from fleetd.core.identity import shown
from fleetd.core.lifecycle.decision import Decision, Moment, end, extended, fail, go, stay, succeed
from fleetd.core.lifecycle.effects import (
    AllowPxe,
    ArchiveWorkflow,
    BanAgents,
    CreateWorkflow,
    DeleteStrays,
    DeleteWorkflow,
    Effect,
    KeepBmc,
    KeepHardware,
    PowerJob,
    RemoveBmc,
    RevokeCertificates,
    VoidTickets,
)
from fleetd.core.lifecycle.power import Drive, drive
from fleetd.core.lifecycle.states import (
    Attesting,
    AwaitingKey,
    Erasing,
    HandingOver,
    Netbooting,
    Outcome,
    PoweringDown,
    PoweringOn,
    Preparing,
    Proven,
)
from fleetd.core.lifecycle.timing import MOST_BOOTS
from fleetd.core.names import IntentKind
from fleetd.core.outside import JobOutcome, Part, PowerState, PowerStep, WorkflowOutcome

NETBOOT = (PowerStep.OFF, PowerStep.BOOT_NETWORK, PowerStep.ON)


def preparing(at: Moment, state: Preparing) -> Decision:
    """Clear what other runs left, then write Hardware, BMC and the attest Workflow."""
    if at.seen.strays is None:
        return stay(at, message="Looking for what earlier runs left in Tinkerbell.")
    keep: tuple[Effect, ...] = (KeepHardware(), KeepBmc()) if at.has_bmc else (KeepHardware(),)
    if at.seen.strays:
        return _clear_strays(at, state, keep)
    create = (*keep, CreateWorkflow(Part.ATTEST))
    if at.has_bmc:
        return go(
            at,
            PoweringOn(at.now, at.now + at.deadlines.power),
            *create,
            message="Waiting for the BMC to start the machine from the network.",
        )
    return go(
        at,
        Netbooting(at.now, at.now + at.deadlines.netboot_by_hand),
        *create,
        AllowPxe(allowed=True),
        message="Waiting for a person to start the machine from the network.",
    )


def _clear_strays(at: Moment, state: Preparing, keep: tuple[Effect, ...]) -> Decision:
    """An old Workflow may be deleted only while no agent works on it: the machine is off, where that can be known."""
    assert at.seen.strays is not None
    if not at.has_bmc or at.seen.power is PowerState.OFF:
        return stay(at, DeleteStrays(at.seen.strays), message="Removing Workflows of earlier runs.", again=at.now)
    job = at.seen.job
    if job is not None and job.outcome is JobOutcome.CREDENTIALS_REFUSED:
        return fail(at, say.BmcRefused(at.run.orders.bmc_secret), effects=(RemoveBmc(),))
    if job is not None and job.outcome is JobOutcome.FAILED:
        again = replace(state, attempt=state.attempt + 1)
        pause = at.now + at.timing.pause_after(again.attempt)
        return replace(stay(at, message="The BMC failed; trying again.", again=pause), state=again)
    off = PowerJob(state.job, (PowerStep.OFF,))
    return stay(at, *keep, off, message="Switching the machine off, because an earlier run left a Workflow.")


def powering_on(at: Moment, state: PoweringOn) -> Decision:
    """Boot from the network; allowPXE goes true just before the power job."""
    unrendered = _not_rendered(at)
    if unrendered:
        return unrendered
    message = "Waiting for the BMC to start the machine from the network."
    driven = drive(at, state, NETBOOT, message, AllowPxe(allowed=True))
    if isinstance(driven, Decision):
        return driven
    if driven is Drive.REFUSED:
        return fail(at, say.BmcRefused(at.run.orders.bmc_secret), effects=(RemoveBmc(),))
    following = Netbooting(at.now, at.now + at.deadlines.netboot, attempt=state.attempt, boots=state.boots)
    return go(at, following, message="Waiting for the machine to boot from the network.")


def netbooting(at: Moment, state: Netbooting) -> Decision:
    """Wait for the first word: an action that runs, or an enrollment."""
    unrendered = _not_rendered(at)
    if unrendered:
        return unrendered
    attest = at.seen.attest
    begun = attest is not None and (attest.outcome is WorkflowOutcome.RUNNING or attest.outcome.over)
    if begun or at.seen.verdict is not None:
        return go(at, Attesting(at.now, at.now + at.deadlines.attest), message="The machine proves itself.")
    if attest is not None and attest.outcome is WorkflowOutcome.ABSENT:
        return stay(at, CreateWorkflow(Part.ATTEST), message="The attest Workflow was gone; creating it again.")
    if at.has_bmc and state.boots < MOST_BOOTS and _start_again(at, state):
        again = PoweringOn(at.now, at.now + at.deadlines.power, attempt=state.attempt + 1, boots=state.boots + 1)
        return go(at, again, message="The machine does not boot from the network; starting it once more.")
    person = "" if at.has_bmc else " Start it by hand: it has no BMC."
    power = f" Power is {at.seen.power.value}." if at.seen.power else ""
    return stay(at, message=f"Waiting for the machine to boot from the network.{power}{person}")


def _start_again(at: Moment, state: Netbooting) -> bool:
    """Whether a silent machine is off, or may have lost its boot device on the way."""
    quirks = at.seen.machine_class.quirks if at.seen.machine_class else PowerQuirks()
    if at.seen.power is PowerState.OFF:
        return at.now >= state.since + max(at.timing.silence, quirks.report_delay)
    share = (state.deadline - state.since) / (MOST_BOOTS - state.boots + 1)
    return quirks.boot_device_lost_on_reset and at.now >= state.since + max(at.timing.silence, share)


def never_netbooted(at: Moment) -> Decision:
    """Fail with the last sign of life and the power state."""
    return fail(at, say.NeverNetbooted(at.seen.last_seen, at.seen.power.value if at.seen.power else "unknown"))


def attesting(at: Moment, state: Attesting | AwaitingKey) -> Decision:
    """Go by the enrollment; the Workflow only says that the agent goes on."""
    unrendered = _not_rendered(at)
    if unrendered:
        return unrendered
    verdict = at.seen.verdict
    if verdict is not None and verdict.state == "passed":
        return _passed(at)
    if verdict is not None and verdict.state == "refused":
        return _refused(at, state)
    failed = _attest_workflow_failed(at)
    if failed:
        return failed
    if verdict is None:
        return stay(at, message="The machine proves itself.")
    rejected = _rejected(at)
    if rejected is not None and not _another(at):
        return end(at, Outcome.FAILED, rejected, power_off_in=timedelta())
    if isinstance(state, Attesting):
        following = AwaitingKey(at.now, at.now + at.deadlines.approval)
        return go(at, following, message="The machine is proven; its endorsement key waits for a person.")
    if rejected is not None:
        text = (
            f"{rejected.sentence()} Another key of the machine is approved, or waits for a person: it may still come."
        )
        return stay(at, message=text, findings=(rejected,), again=at.later)
    return stay(at, message="The endorsement key waits for a person's approval in NetBox.", again=at.later)


def _passed(at: Moment) -> Decision:
    attest = at.seen.attest
    if attest is None:
        return stay(at, message="The machine is proven.")
    if attest.outcome in {WorkflowOutcome.SUCCESS, WorkflowOutcome.ABSENT}:
        following = Proven(at.now, at.now + at.deadlines.approval)
        return go(at, following, message="The machine is proven.")
    failed = _attest_workflow_failed(at)
    return failed or stay(at, message="The machine is proven; waiting for its Workflow to end.")


def _refused(at: Moment, state: Attesting | AwaitingKey) -> Decision:
    verdict = at.seen.verdict
    assert verdict is not None
    pauses = at.timing.refusal_pauses
    if at.run.refusals > len(pauses):
        return fail(at, say.AttestationFailed(verdict.codes))
    failed = _attest_workflow_failed(at)
    if failed:
        return fail(at, say.AttestationFailed(verdict.codes))
    pause = pauses[max(at.run.refusals, 1) - 1]
    until = verdict.at + pause + at.deadlines.attest
    back = state if isinstance(state, Attesting) else Attesting(at.now, until)
    text = f"Refused ({', '.join(verdict.codes) or 'no reason'}); the machine tries again in {pause}."
    return replace(stay(at, message=text), state=extended(back, until))


def _rejected(at: Moment) -> KeyRejected | None:
    """Return what is to be said of the key that waits, if a person has rejected it."""
    verdict, declared = at.seen.verdict, at.seen.declaration
    if verdict is None or declared is None:
        return None
    said_no = {shown(key.public_hash) for key in declared.keys if key.status == "rejected"}
    waiting = (str(told["evidence"]["fingerprint"]) for told in verdict.findings if told["code"] == KeyWaits.code)
    return next((KeyRejected(fingerprint) for fingerprint in waiting if fingerprint in said_no), None)


def _another(at: Moment) -> bool:
    """Tell whether another key of the machine may still come.

    A TPM that waits for a machine may be a stranger's that claims its address: while another key of the machine is
    approved, or waits too, saying no to the one is no word on the other.
    """
    declared = at.seen.declaration
    return declared is not None and any(key.status in {"pending", "approved"} for key in declared.keys)


def _attest_workflow_failed(at: Moment) -> Decision | None:
    attest, told = at.seen.attest, at.seen.failure()
    if attest is None:
        return None
    if attest.outcome in {WorkflowOutcome.FAILED, WorkflowOutcome.TIMEOUT}:
        name = next(
            (action.name for action in attest.actions if action.state.upper() in {"FAILED", "TIMEOUT"}), "enroll"
        )
        return fail(at, say.ActionFailed(told.action if told else name, told.message if told else ""))
    waited = at.now >= at.run.state.since + at.timing.evidence
    if attest.outcome is WorkflowOutcome.SUCCESS and at.seen.verdict is None and waited:
        return fail(at, say.EvidenceMissing("attest", ("enroll",)))
    return None


def attestation_late(at: Moment) -> Decision:
    """Fail after the deadline of an enrollment."""
    verdict = at.seen.verdict
    if verdict is not None and verdict.state == "refused":
        return fail(at, say.AttestationFailed(verdict.codes))
    return fail(at, say.AttestationLate(at.seen.last_seen))


def key_late(at: Moment) -> Decision:
    """Fail after the deadline of an approval, and switch the machine off at once."""
    return end(at, Outcome.FAILED, _rejected(at) or say.KeyNotApproved(), power_off_in=timedelta())


def proven(at: Moment, state: Proven) -> Decision:
    """Remove the attest Workflow; only then does the next part exist."""
    del state
    attest = at.seen.attest
    if attest is None:
        return stay(at, message="The machine is proven.")
    if attest.outcome is not WorkflowOutcome.ABSENT:
        gone = (ArchiveWorkflow(Part.ATTEST), DeleteWorkflow(Part.ATTEST))
        return stay(at, *gone, message="The machine is proven.", again=at.now)
    if not at.run.kind.erases:
        return _attested(at)
    if not at.seen.fresh:
        return stay(at, message=say.InventoryAway().sentence(), findings=(say.InventoryAway(),))
    if not at.seen.clock_ok:
        return stay(at, message=say.ClockUntrusted().sentence(), findings=(say.ClockUntrusted(),))
    withdraw: tuple[Effect, ...] = ()
    if at.run.kind is not IntentKind.PROVISION:
        withdraw = (RevokeCertificates(), VoidTickets(), BanAgents())
    following = Erasing(at.now, at.now + at.deadlines.action)
    return go(at, following, *withdraw, CreateWorkflow(Part.DISK), message="The disk Workflow begins.")


def _attested(at: Moment) -> Decision:
    closed = AllowPxe(allowed=False)
    if at.run.was_active:
        following = HandingOver(at.now, at.now + at.deadlines.hand_over)
        return go(at, following, closed, message="The machine goes back to its disk.")
    if at.has_bmc:
        return go(at, PoweringDown(at.now, at.now + at.deadlines.power), closed, message="Switching the machine off.")
    return succeed(at, closed, message="The machine is attested.", findings=(say.PowerOffByPerson(),))


def _not_rendered(at: Moment) -> Decision | None:
    attest = at.seen.attest
    if attest is not None and attest.outcome is WorkflowOutcome.UNRENDERED and attest.problem:
        return fail(at, say.WorkflowNotRendered("attest", attest.problem))
    return None
