"""What must hold before a run begins."""

from collections.abc import Iterator

from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.findings import Finding
from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle.decision import Decision, Moment, fail, stay
from fleetd.core.lifecycle.effects import AllowPxe, BanAgents, Effect, RevokeCertificates, VoidTickets
from fleetd.core.lifecycle.observed import GateSeen
from fleetd.core.lifecycle.states import AwaitingCheck, Gated, PoweringDown, Preparing, State
from fleetd.core.names import IntentKind


def at_the_gate(at: Moment) -> Decision:
    """Let the run begin, refuse it, or say what it waits for."""
    declared, gate = at.seen.declaration, at.seen.gate
    if declared is None or gate is None:
        return _wait(at, say.InventoryAway())
    waits = tuple(_waits(at, declared, gate))
    if waits and not at.seen.fresh:
        return _wait(at, *waits)
    if not at.seen.fresh:
        return _wait(at, say.InventoryAway())
    refused = tuple(_refusals(at, declared, gate))
    if refused:
        return fail(at, *refused)
    if waits:
        return _wait(at, *waits)
    return _begin(at, declared)


def _begin(at: Moment, declared: Declaration) -> Decision:
    effects: tuple[Effect, ...] = ()
    state: State
    if at.run.given_up:
        state = PoweringDown(at.now, at.now + at.deadlines.power)
        effects = (RevokeCertificates(), VoidTickets(), BanAgents())
    elif at.run.by_check:
        state = AwaitingCheck(at.now, at.now + at.timing.check)
    else:
        state = Preparing(at.now, at.now + at.deadlines.power)
    return Decision(state, effects, at.now, (), "The run begins.", orders=declared)


def _wait(at: Moment, *waits: Finding) -> Decision:
    return stay(at, message=waits[0].sentence(), findings=waits, again=at.later)


def timed_out(at: Moment, waited: Decision) -> Decision:
    """Say that what was waited for did not come."""
    return fail(at, say.GateTimedOut(waited.message))


def _refusals(at: Moment, declared: Declaration, gate: GateSeen) -> Iterator[Finding]:
    if at.run.given_up or at.run.by_check:
        return
    missing = tuple(missing_from(declared, needs_disk=at.run.kind.erases))
    if missing:
        yield say.DeclarationIncomplete(missing)
    if at.seen.machine_class is None:
        yield say.ClassUnknown(declared.machine_class)
        return
    yield from _class_refusals(at, at.seen.machine_class, declared, gate)
    if at.run.kind.erases:
        yield from _disk_refusals(at, declared, gate)


def missing_from(declared: Declaration, *, needs_disk: bool) -> Iterator[str]:
    """Name what a declaration lacks for a run."""
    if not declared.node_name:
        yield "node name"
    if not declared.machine_class:
        yield "class"
    if needs_disk and declared.disk is None:
        yield "disk serial"
    if not declared.macs:
        yield "a MAC address"


def _class_refusals(at: Moment, rules: MachineClass, declared: Declaration, gate: GateSeen) -> Iterator[Finding]:
    if at.run.kind is IntentKind.PROVISION and not rules.installable:
        yield say.ClassNotInstallable(rules.slug, rules.reason)
    if rules.bmc_required and not declared.has_bmc:
        yield say.BmcRequired(rules.slug)
    if at.run.kind is IntentKind.PROVISION and gate.seed_problem:
        yield say.SeedUnreadable(gate.seed_problem)


def _disk_refusals(at: Moment, declared: Declaration, gate: GateSeen) -> Iterator[Finding]:
    intent = declared.intent
    serial = declared.disk.serial if declared.disk else ""
    confirmed = intent.confirmed_serial if intent else ""
    # A retirement by the Device's status has no typed serial; where NetBox kept one, it holds as for any erase.
    if (confirmed or at.run.kind is not IntentKind.RETIRE) and confirmed != serial:
        yield say.SerialNotConfirmed(confirmed, serial)
    if gate.disk_declared_by:
        yield say.DiskDeclaredTwice(serial, gate.disk_declared_by)


def _waits(at: Moment, declared: Declaration, gate: GateSeen) -> Iterator[Finding]:
    intent = declared.intent
    if intent is not None and not intent.approved:
        yield say.IntentWaitsForApproval(intent.requested_by)
    if at.run.by_check or at.run.given_up:
        return
    if intent is not None and _second_person_missing(at, declared):
        yield say.IntentWaitsForApproval(intent.requested_by)
    if declared.has_bmc and not gate.credentials_ready:
        yield say.BmcCredentialsMissing(declared.bmc_secret)
    if not at.seen.clock_ok:
        yield say.ClockUntrusted()
    if gate.budget_full and not (intent and intent.force_budget):
        yield say.BudgetFull(gate.budget_full)
    if gate.runs_full:
        yield say.TooManyRuns(gate.runs_full)


def _second_person_missing(at: Moment, declared: Declaration) -> bool:
    intent, rules = declared.intent, at.seen.machine_class
    by_rules = (rules is not None and rules.two_person) or (at.seen.gate is not None and at.seen.gate.two_person)
    demanded = by_rules or (intent is not None and intent.two_person)
    if intent is None or not demanded or not at.run.kind.erases:
        return False
    return intent.approved and intent.approved_by in {"", intent.requested_by}


def gated(at: Moment) -> State:
    """Return the first state of a run."""
    return Gated(at.now, at.now + max(at.deadlines.intent_approval, at.deadlines.budget))


def give_up(at: Moment) -> Decision:
    """Withdraw the credentials of a machine that a person declared lost while its run is under way."""
    state = PoweringDown(at.now, at.now + at.deadlines.power)
    effects = (AllowPxe(allowed=False), RevokeCertificates(), VoidTickets(), BanAgents())
    return Decision(state, effects, at.now, (), "Declared lost; withdrawing its credentials.")
