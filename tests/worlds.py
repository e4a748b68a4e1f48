"""A world in memory around the real store: Tinkerbell, BMC, NetBox and machine as the Protocols say they behave."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from fleetd.app import runs
from fleetd.app.look import look_at
from fleetd.app.poll import poll
from fleetd.app.report import send_reports
from fleetd.app.world import LifecycleSettings, World
from fleetd.ca.service_keys import KeyRing
from fleetd.ca.speaker import ServiceSpeaker
from fleetd.core.classes import (
    ClassBook,
    Deadlines,
    DiskRules,
    Image,
    MachineClass,
    TagRules,
)
from fleetd.core.declaration import Address, Declaration, Disk, Intent, Interface, Vanished
from fleetd.core.findings import Finding
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import DiskSerial, Family, IntentKind, MacAddress, MachineId, Phase, RunId
from fleetd.core.outside import (
    ActionState,
    JobOutcome,
    JobSeen,
    Part,
    PowerState,
    PowerStep,
    WorkflowOutcome,
    WorkflowSeen,
)
from fleetd.ports import (
    CredentialsRefusedError,
    DeclarationPage,
    HardwareWanted,
    OutageError,
    ReportOutcome,
    TooLargeError,
    WorkflowWanted,
)
from fleetd.store.machines import MachineRow, due
from fleetd.store.runs import RunRow
from tests.clocks import START, SetClock

PROVISION = ("guard", "erase", "write-image", "write-seed", "set-boot", "finish")
WIPE = ("guard", "erase", "finish")


def a_class(name: str = "lab-alpine", **changes: Any) -> MachineClass:
    """Return an installable class."""
    base = MachineClass(
        slug=name,
        family=Family.ALPINE_IMAGE,
        digest="d1",
        attestation=None,
        image=Image("https://images.example/a.zst", "00" * 32, 1 << 20),
        disk=DiskRules(1 << 20, "quick"),
        deadlines=Deadlines(),
    )
    return replace(base, **changes)


def a_declaration(machine: int = 7, **changes: Any) -> Declaration:
    """Return a complete declaration with a BMC and no intent."""
    base = Declaration(
        machine=MachineId(machine),
        node_name=f"node{machine}",
        machine_class="lab-alpine",
        disk=Disk(DiskSerial(f"disk{machine}")),
        extra_disks=(),
        bmc_address=f"192.0.2.{machine}",
        bmc_secret=f"bmc{machine}",
        phase=Phase.DECLARED,
        device_name=f"node{machine}",
        device_status="planned",
        device_serial=f"SN{machine}",
        site="lab",
        role="node",
        primary_ip4="",
        primary_ip6="",
        interfaces=(Interface("eth0", (MacAddress(f"52:54:00:00:00:{machine:02x}"),)),),
        addresses=(Address(f"198.51.100.{machine}/24", "eth0", gateway="198.51.100.1"),),
        keys=(),
        tags=(),
    )
    return replace(base, **changes)


def an_intent(kind: IntentKind = IntentKind.PROVISION, machine: int = 7, **changes: Any) -> Intent:
    """Return an approved intent for the disk of `a_declaration`."""
    base = Intent(
        id=RunId(uuid4()),
        kind=kind,
        approved=True,
        requested_by="anna",
        requested_at=START,
        confirmed_serial=DiskSerial(f"disk{machine}"),
    )
    return replace(base, **changes)


class Zeros:
    """Randomness that a test can predict."""

    def bytes(self, count: int) -> bytes:
        return bytes(count)


@dataclass
class FakeNetBox:
    """The plugin's two endpoints."""

    declared: dict[MachineId, Declaration | Vanished] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    seqs: dict[int, int] = field(default_factory=dict)
    finished: list[RunId] = field(default_factory=list)
    away: bool = False
    most_rows: int = 1000
    """More rows in one body are too large for what stands in front of it."""
    version: int = 0
    changes: list[MachineId] = field(default_factory=list)

    def declare(self, record: Declaration | Vanished) -> None:
        self.declared[record.machine] = record
        self.changes.append(record.machine)

    def ask(self, intent: Intent | None, machine: int = 7) -> None:
        record = self.declared[MachineId(machine)]
        assert isinstance(record, Declaration)
        self.declare(replace(record, intent=intent))

    def change(self, machine: int = 7, **changes: Any) -> None:
        record = self.declared[MachineId(machine)]
        assert isinstance(record, Declaration)
        self.declare(replace(record, **changes))

    def cancel(self, machine: int = 7, at: datetime = START) -> None:
        record = self.declared[MachineId(machine)]
        assert isinstance(record, Declaration)
        assert record.intent
        self.ask(replace(record.intent, cancel_requested_by="carl", cancel_requested_at=at), machine)

    def declarations(self, cursor: str | None) -> DeclarationPage:
        self._reached()
        names = list(self.declared) if cursor is None else list(dict.fromkeys(self.changes[int(cursor) :]))
        records = tuple(self.declared[name] for name in names)
        return DeclarationPage(records, str(len(self.changes)), more=False, full_read_required=False)

    def declaration(self, machine: MachineId) -> Declaration | Vanished | None:
        self._reached()
        return self.declared.get(machine)

    def report(self, body: Any) -> ReportOutcome:
        self._reached()
        if len(body["reports"]) > self.most_rows:
            raise TooLargeError("413")
        stale = []
        for entry in body["reports"]:
            machine = entry["machine_id"]
            if entry["seq"] <= self.seqs.get(machine, 0):
                stale.append(MachineId(machine))
                continue
            self.seqs[machine] = entry["seq"]
            self.reports.append(entry)
            self._spend(machine, entry.get("intent"))
        return ReportOutcome(len(body["reports"]) - len(stale), tuple(stale), ())

    def _spend(self, machine: int, intent: dict[str, Any] | None) -> None:
        record = self.declared.get(MachineId(machine))
        final = intent and intent["state"] in {"succeeded", "failed", "cancelled", "withdrawn"}
        if isinstance(record, Declaration) and record.intent and final and str(record.intent.id) == intent["id"]:
            self.finished.append(record.intent.id)
            self.declare(replace(record, intent=None))

    def finished_runs(self) -> Any:
        return iter(self.finished)

    def shown(self, machine: int = 7) -> dict[str, Any]:
        """Return what the machine's page shows: the last value of everything reported."""
        merged: dict[str, Any] = {}
        for entry in self.reports:
            if entry["machine_id"] == machine:
                merged |= entry
        return merged

    def _reached(self) -> None:
        if self.away:
            raise OutageError("NetBox does not answer")


@dataclass
class FakeWorkflow:
    """A Workflow and what became of it."""

    wanted: WorkflowWanted
    outcome: WorkflowOutcome = WorkflowOutcome.PENDING
    problem: str = ""
    failed: str = ""


@dataclass
class FakeTinkerbell:
    """Hardware and Workflows by name."""

    hardware: dict[MachineId, HardwareWanted] = field(default_factory=dict)
    allowed: dict[MachineId, bool] = field(default_factory=dict)
    workflows: dict[tuple[RunId, Part], FakeWorkflow] = field(default_factory=dict)
    created: list[tuple[RunId, Part]] = field(default_factory=list)
    deleted_running: list[tuple[RunId, Part]] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    """Templates of earlier versions."""
    away: bool = False
    log: list[str] = field(default_factory=list)

    def keep_hardware(self, wanted: HardwareWanted) -> None:
        self._reached()
        self.hardware[wanted.machine] = wanted
        self.allowed[wanted.machine] = wanted.allow_pxe

    def set_allow_pxe(self, machine: MachineId, *, allowed: bool) -> None:
        self._reached()
        if machine in self.hardware:
            self.allowed[machine] = allowed

    def remove_hardware(self, machine: MachineId) -> None:
        self._reached()
        self.hardware.pop(machine, None)
        self.allowed.pop(machine, None)

    def create_workflow(self, wanted: WorkflowWanted) -> None:
        self._reached()
        key = (wanted.run, wanted.part)
        if key not in self.workflows:
            self.workflows[key] = FakeWorkflow(wanted)
            self.created.append(key)

    def workflow(self, run: RunId, part: Part) -> WorkflowSeen:
        self._reached()
        found = self.workflows.get((run, part))
        if found is None:
            return WorkflowSeen("", WorkflowOutcome.ABSENT)
        names = ("enroll",) if part is Part.ATTEST else PROVISION if "provision" in found.wanted.template else WIPE
        actions = tuple(ActionState(n, "FAILED" if n == found.failed else "", None, None) for n in names)
        return WorkflowSeen(f"{run.hex}-{part[0]}", found.outcome, actions, found.problem, {"kind": "Workflow"})

    def delete_workflow(self, run: RunId, part: Part) -> None:
        self._reached()
        found = self.workflows.pop((run, part), None)
        if found and found.outcome is WorkflowOutcome.RUNNING:
            self.deleted_running.append((run, part))

    def stray_workflows(self, machine: MachineId, run: RunId | None) -> tuple[str, ...]:
        self._reached()
        mine = ((key, flow) for key, flow in self.workflows.items() if flow.wanted.machine == machine)
        return tuple(f"{key[0].hex}-{key[1].value}" for key, _ in mine if key[0] != run)

    def delete_named(self, name: str) -> None:
        self._reached()
        run, part = name.split("-")
        self.workflows.pop((RunId(UUID(run)), Part(part)), None)

    def collect_templates(self) -> tuple[str, ...]:
        self._reached()
        names, self.unused = tuple(self.unused), []
        return names

    def _reached(self) -> None:
        if self.away:
            raise OutageError("Tinkerbell does not answer")


@dataclass
class FakeBmc:
    """Power of every machine, through jobs of which each name runs once."""

    power: dict[MachineId, PowerState] = field(default_factory=dict)
    boot: dict[MachineId, PowerStep] = field(default_factory=dict)
    jobs: dict[tuple[RunId, str], JobSeen] = field(default_factory=dict)
    machines: dict[MachineId, str] = field(default_factory=dict)
    ready: bool = True
    answer: JobOutcome = JobOutcome.COMPLETED
    booted: list[tuple[MachineId, PowerStep | None]] = field(default_factory=list)
    away: bool = False
    refuses: bool = False
    """Whether the BMC refuses the login when its power state is asked for."""
    logins: int = 0
    """Logins that it refused."""

    def credentials_ready(self, secret: str) -> bool:
        self._reached()
        return self.ready

    def keep_bmc(self, machine: MachineId, address: str, secret: str) -> None:
        self._reached()
        assert self.ready, "never before its Secret is ready"
        self.machines[machine] = secret

    def remove_bmc(self, machine: MachineId) -> None:
        self._reached()
        self.machines.pop(machine, None)

    def start(self, run: RunId, machine: MachineId, name: str, steps: tuple[PowerStep, ...]) -> None:
        self._reached()
        if (run, name) in self.jobs:
            return
        self.logins += self.refuses
        self.jobs[run, name] = JobSeen(self.answer, "" if self.answer is JobOutcome.COMPLETED else "connection refused")
        if self.answer is not JobOutcome.COMPLETED:
            return
        for step in steps:
            if step is PowerStep.OFF:
                self.power[machine] = PowerState.OFF
            elif step is PowerStep.ON:
                if self.power.get(machine) is not PowerState.ON:
                    self.booted.append((machine, self.boot.get(machine)))
                self.power[machine] = PowerState.ON
            else:
                self.boot[machine] = step

    def job(self, run: RunId, name: str) -> JobSeen:
        self._reached()
        return self.jobs.get((run, name), JobSeen(JobOutcome.ABSENT))

    def remove_jobs(self, run: RunId) -> None:
        self._reached()
        for key in [key for key in self.jobs if key[0] == run]:
            del self.jobs[key]

    def state(self, machine: MachineId) -> PowerState:
        self._reached()
        if self.refuses and machine in self.machines:
            self.logins += 1
            del self.machines[machine]
            raise CredentialsRefusedError("the BMC refuses the login")
        if self.refuses:
            return PowerState.UNKNOWN
        return self.power.get(machine, PowerState.OFF)

    def _reached(self) -> None:
        if self.away:
            raise OutageError("the BMC does not answer")


@dataclass
class FakeAuthority:
    """Certificates, as their withdrawals."""

    revoked: list[MachineId] = field(default_factory=list)
    held: set[MachineId] = field(default_factory=set)

    def revoke(self, machine: MachineId, reason: str) -> None:
        self.revoked.append(machine)

    def hold(self, machine: MachineId) -> None:
        self.held.add(machine)

    def release(self, machine: MachineId) -> None:
        self.held.discard(machine)


@dataclass
class FakeReservations:
    """The DHCP server's reservations, as far as runs touch them."""

    removed: list[MachineId] = field(default_factory=list)
    watch: Callable[[], object] = int
    """Called at each removal."""

    def remove(self, machine: MachineId) -> None:
        self.watch()
        self.removed.append(machine)


@dataclass
class FakeSpire:
    """Agents that were banned."""

    banned: list[bytes] = field(default_factory=list)
    away: bool = False

    def ban(self, certificates: Sequence[bytes]) -> tuple[str, ...]:
        if self.away:
            raise OutageError("SPIRE does not answer")
        self.banned += certificates
        return tuple(f"spiffe://lab/agent/{number}" for number, _ in enumerate(certificates))


@dataclass
class FakeTickets:
    """Tickets, as their voiding."""

    voided: list[RunId] = field(default_factory=list)

    def void(self, machine: MachineId, run: RunId) -> None:
        self.voided.append(run)


@dataclass
class FakeClasses:
    """Classes in force."""

    classes: dict[str, MachineClass] = field(default_factory=lambda: {"lab-alpine": a_class()})
    problem: str = ""
    tags: dict[str, TagRules] = field(default_factory=dict)

    def book(self) -> ClassBook:
        return ClassBook(self.classes, tags=self.tags)

    def seed_problem(self, machine_class: MachineClass, declaration: Declaration) -> str:
        return self.problem


def speaking(key: Ed25519PrivateKey) -> ServiceSpeaker:
    """Return a service that signs with this key."""
    ring = KeyRing(key, (key.public_key(),))
    return ServiceSpeaker(lambda: ring)


class PlainKey:
    """Signs the audit in a way that a test can check."""

    def sign(self, message: bytes) -> str:
        return message.hex()


@dataclass
class Stage:
    """The world with everything in it that a test may touch."""

    sessions: sessionmaker[Session]
    clock: SetClock = field(default_factory=SetClock)
    netbox: FakeNetBox = field(default_factory=FakeNetBox)
    tinkerbell: FakeTinkerbell = field(default_factory=FakeTinkerbell)
    bmc: FakeBmc = field(default_factory=FakeBmc)
    authority: FakeAuthority = field(default_factory=FakeAuthority)
    speaker: ServiceSpeaker = field(default_factory=lambda: speaking(Ed25519PrivateKey.generate()))
    spire: FakeSpire | None = None
    tickets: FakeTickets = field(default_factory=FakeTickets)
    reservations: FakeReservations = field(default_factory=FakeReservations)
    classes: FakeClasses = field(default_factory=FakeClasses)
    settings: LifecycleSettings = field(default_factory=LifecycleSettings)
    serials: dict[MachineId, str] = field(default_factory=dict)
    """The serial that a machine's disk really has, where it is not the declared one."""
    unapproved: set[MachineId] = field(default_factory=set)
    refused: dict[MachineId, tuple[Finding, ...]] = field(default_factory=dict)
    noted: dict[MachineId, tuple[Finding, ...]] = field(default_factory=dict)
    """Findings of an enrollment that passes all the same."""
    erased: list[tuple[MachineId, str]] = field(default_factory=list)
    seqs: dict[RunId, int] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    """Actions that fail, with what they say."""
    further_disks: list[str] = field(default_factory=list)
    """Serials of disks that machines have and nobody declared."""
    mute: set[str] = field(default_factory=set)
    """Actions that end without a word."""

    @property
    def timing(self) -> Timing:
        return self.settings.timing

    def world(self, **changes: Any) -> World:
        base = World(
            sessions=self.sessions,
            clock=self.clock,
            random=Zeros(),
            inventory=self.netbox,
            provisioner=self.tinkerbell,
            power=self.bmc,
            classes=self.classes,
            authority=self.authority,
            tickets=self.tickets,
            reservations=self.reservations,
            signer=self.speaker,
            workloads=self.spire,
            audit_key=PlainKey(),
            settings=self.settings,
        )
        return replace(base, **changes)

    # --- fleetd ---

    def look(self, world: World | None = None) -> None:
        """Look at everything that is due, until nothing is."""
        world = world or self.world()
        for _ in range(30):
            with self.sessions.begin() as session:
                machines = due(session, self.clock.now(), 100)
            if not machines:
                return
            for machine in machines:
                look_at(machine, world)
        raise AssertionError("looks do not come to rest")

    def turn(self, world: World | None = None) -> None:
        """Poll, look and report once."""
        world = world or self.world()
        if not self.netbox.away:
            poll(world)
        self.look(world)
        send_reports(world)

    def run(self, machine: int = 7) -> RunRow:
        with self.sessions() as session:
            row = session.get_one(MachineRow, machine)
            return session.get_one(RunRow, row.run_id)

    def machine(self, machine: int = 7) -> MachineRow:
        with self.sessions() as session:
            return session.get_one(MachineRow, machine)

    # --- the machine ---

    def live(self) -> None:
        """Let every machine do what it would do now, one step."""
        for machine in list(self.netbox.declared):
            self.machine_lives(machine)

    def machine_lives(self, machine: MachineId) -> None:
        declared = self.netbox.declared[machine]
        has_bmc = isinstance(declared, Declaration) and declared.has_bmc
        on = self.bmc.power.get(machine) is PowerState.ON or not has_bmc
        in_hookos = self.tinkerbell.allowed.get(machine, False) or any(
            flow.wanted.machine == machine and flow.outcome is WorkflowOutcome.RUNNING
            for flow in self.tinkerbell.workflows.values()
        )
        if on and in_hookos and self.tinkerbell.workflows:
            self.agent(machine)
        elif on:
            self.installed(machine)

    def agent(self, machine: MachineId) -> None:
        for (run, part), flow in list(self.tinkerbell.workflows.items()):
            if flow.wanted.machine != machine or flow.outcome.over or flow.problem:
                continue
            flow.outcome = WorkflowOutcome.RUNNING
            if part is Part.ATTEST:
                self.enroll(machine, run, flow)
            else:
                self.act(machine, run, flow)

    def enroll(self, machine: MachineId, run: RunId, flow: FakeWorkflow) -> None:
        with self.sessions.begin() as session:
            found = runs.open_run(session, machine)
            if found is None:
                flow.outcome = WorkflowOutcome.SUCCESS
                return
            state = "waiting" if machine in self.unapproved else "refused" if machine in self.refused else "passed"
            outcome = runs.EnrollmentOutcome(
                state,
                self.refused.get(machine, ()) or self.noted.get(machine, ()),
                {"id": str(uuid4()), "passed": state == "passed", "policy": "judged"},
                {"disks": self.disks_of(machine)},
                self.clock.now(),
            )
            answer = runs.record_enrollment(session, machine, found.id, outcome, self.timing)
        if state == "passed":
            flow.outcome = WorkflowOutcome.SUCCESS
        elif answer.stop:
            flow.outcome, flow.failed = WorkflowOutcome.FAILED, "enroll"

    def act(self, machine: MachineId, run: RunId, flow: FakeWorkflow) -> None:
        """Run the actions that are left, in order, until one must wait or fails."""
        with self.sessions() as session:
            done = {event.action for event in runs_events(session, run) if event.kind == "finished"}
        for action in PROVISION if "provision" in flow.wanted.template else WIPE:
            if action in done:
                continue
            if not self.one_action(machine, run, action, flow):
                return
        flow.outcome = WorkflowOutcome.SUCCESS

    def one_action(self, machine: MachineId, run: RunId, action: str, flow: FakeWorkflow) -> bool:
        serial = self.serials.get(machine, flow.wanted.values["disk_serial"])
        self.tell(run, action, "started")
        if action == "guard" and serial != flow.wanted.values["disk_serial"]:
            return self.fails(run, action, f"no disk has serial {flow.wanted.values['disk_serial']}", flow)
        if action in self.failing:
            return self.fails(run, action, self.failing[action], flow)
        if action in {"erase", "write-image", "write-seed", "set-boot"}:
            with self.sessions.begin() as session:
                answer = runs.grant(session, run, action, serial, self.clock.now())
            if isinstance(answer, runs.NotNow):
                return self.fails(run, action, answer.why, flow) if answer.stop else False
            if action == "erase":
                self.erased.append((machine, serial))
        if action not in self.mute:
            told = [
                erased(name) for name in (serial, *filter(None, flow.wanted.values.get("extra_serials", "").split(",")))
            ]
            self.tell(run, action, "finished", {"disks": told} if action == "erase" else {"serial": serial})
        return True

    def disks_of(self, machine: MachineId) -> list[dict[str, Any]]:
        """Return the disks that the machine shows when it enrolls: what is declared, and what else it has."""
        declared = self.netbox.declared[machine]
        assert isinstance(declared, Declaration)
        names = [self.serials.get(machine, declared.disk.serial)] if declared.disk else []
        names += [disk.serial for disk in declared.extra_disks] + self.further_disks
        return [{"name": f"sd{n}", "serial": name, "model": "Sample", "size": 1 << 30} for n, name in enumerate(names)]

    def fails(self, run: RunId, action: str, why: str, flow: FakeWorkflow) -> bool:
        if action not in self.mute:
            self.tell(run, action, "failed", message=why)
        flow.outcome, flow.failed = WorkflowOutcome.FAILED, action
        return False

    def tell(self, run: RunId, action: str, kind: Any, data: Any = None, message: str = "") -> None:
        self.seqs[run] = self.seqs.get(run, 0) + 1
        with self.sessions.begin() as session:
            event = runs.MachineEvent(self.seqs[run], action, kind, None, message, data)
            runs.record_event(session, run, event, self.clock.now())

    def installed(self, machine: MachineId) -> None:
        """The installed system redeems where it may."""
        with self.sessions.begin() as session:
            found = runs.open_run(session, machine)
            if found is None:
                return
            if found.state == "handing-over":
                runs.may_reboot(session, found.id, self.clock.now())
            if found.state == "configuring":
                runs.record_redemption(session, found.id, self.clock.now())

    def check(self, machine: int = 7, result: Any = "ok", digest: str = "aa", **more: Any) -> None:
        with self.sessions.begin() as session:
            outcome = runs.CheckOutcome(result, (), (), digest, self.clock.now(), **more)
            runs.record_check(session, session.get_one(MachineRow, machine, with_for_update=True), outcome)

    def walk(self, turns: int = 40, machine: int = 7, **step: float) -> RunRow:
        """Let fleetd and machines take turns until the machine's run has ended; return the run."""
        for _ in range(turns):
            self.turn()
            if self.ended(machine):
                self.turn()
                return self.run(machine)
            self.live()
            self.clock.pass_by(**(step or {"seconds": 6}))
        return self.run(machine)

    def ended(self, machine: int = 7) -> bool:
        with self.sessions() as session:
            row = session.get(MachineRow, machine)
            return row is not None and row.run_id is not None and not row.run_open


def erased(serial: str) -> dict[str, Any]:
    """Return what an erase tells of a disk."""
    return {
        "serial": serial, "wwn": "", "model": "Sample", "size": 1 << 30, "depth": "deep", "method": "overwrite",
        "start": "2026-03-01T12:00:00Z", "end": "2026-03-01T12:01:00Z", "result": "erased", "note": "",
        "samples": 1026, "random_looking": False, "tried": [],
    }  # fmt: skip


def runs_events(session: Session, run: RunId) -> Any:
    from fleetd.store.events import EventRow

    return session.scalars(select(EventRow).where(EventRow.run_id == run)).all()
