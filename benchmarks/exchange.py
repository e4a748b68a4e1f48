"""How many machines a fleetd serves: real API processes, PostgreSQL with fsync, Valkey; keys in memory in place of TPMs.

What a machine does for itself (quotes, activation, the log) is done before the clock starts; TLS, HTTP, verification,
certificates and the committed rows are in the time. Each rate is given twice: by the processor time that fleetd and
PostgreSQL used, for two cores (a busy host changes it little), and by wall clock, with this program sending from the
same cores and whatever else the host was doing.
"""

import os
import ssl
import sys
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy.orm import Session, sessionmaker

import fleetd.store.tables  # noqa: F401 - all tables
from benchmarks.load import Answered, Call, Target, dumped
from benchmarks.processors import CORES, seconds_of
from benchmarks.verdict import at_least
from fleet_lab.bringup import clean
from fleet_lab.classes import Image, lab_light
from fleet_lab.fleetd_service import FleetdService, new_service, secret_file
from fleet_lab.places import Places
from fleet_lab.services.postgres import start_postgres
from fleet_lab.services.valkey import start_valkey
from fleetd.ca.signer import service_key
from fleetd.ca.tree import Tree
from fleetd.core.certificates.profile import Tier
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.store.certificates import CertificateRow, CertificateState
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.enrollments import InstallRow
from tests.integration.http import machines
from tests.integration.http.machines import PretendEk, PretendMachine, a_declaration, approved, put_machine, put_run
from tests.unit.attestation.evidence import ecc_key, ldevid_key

CHECKING, ROUNDS = 200, 3
ENROLLING = 60
PROCESSES = 2
THREADS = 12
CLASS = "lab-light"


@dataclass(frozen=True, slots=True)
class Bench:
    """A running fleetd and its database."""

    fleetd: FleetdService
    sessions: sessionmaker[Session]
    target: Target
    roots: tuple[int, ...]
    """Process ids of fleetd's API and PostgreSQL."""

    def machine(self, number: int, ek: PretendEk) -> PretendMachine:
        """Return a machine with keys of its own."""
        key = service_key(self.fleetd.folder / "ca" / "service.key").public_key()
        return PretendMachine(self.target, key, number, ek, lak=ecc_key(), ldevid=ldevid_key())


def started(places: Places, stack: ExitStack) -> Bench:
    """Start PostgreSQL, Valkey and fleetd's API and worker; all of it stops with the stack."""
    stack.callback(clean, places)
    postgres = start_postgres(places, durable=True)
    stack.callback(postgres.stop)
    valkey = start_valkey(places)
    stack.callback(valkey.stop)
    postgres.create("fleetd")
    folder = places.state / "fleetd"
    folder.mkdir(parents=True)
    made = lab_light(Image("none", "00" * 32, 1 << 20), "http://127.0.0.1:1", name=CLASS)
    made["attestation"]["ek_certificate"] = "optional"
    (folder / "classes.json").write_bytes(dumped({"version": 1, "classes": [made]}))
    broker = {
        "url": f"redis://127.0.0.1:{valkey.port}/0",
        "password_file": secret_file(folder / "broker.password", valkey.password),
    }
    unbounded = 10_000_000
    service = new_service(
        places,
        {
            "database": {"url": postgres.url("fleetd")},
            "broker": broker,
            "netbox": {"token_file": secret_file(folder / "netbox.token", "none")},
            "paths": {"classes_file": folder / "classes.json"},
            "machine": {"host": "127.0.0.1", "processes": PROCESSES, "names": ["127.0.0.1"]},
            # All machines of the benchmark share one address.
            "caps": {
                "calls_per_minute": unbounded,
                "calls_in_total_per_minute": unbounded,
                "certificates_per_minute": unbounded,
            },
        },
    )
    service.command("migrate")
    service.command("ca", "init")
    stack.callback(service.stop)
    service.start("serve")
    engine = open_engine(postgres.url("fleetd"))
    stack.callback(engine.dispose)
    tls = ssl.create_default_context(cafile=str(folder / "ca" / "root.pem"))
    roots = tuple(child.process.pid for child in (service.children["serve"], postgres.child) if child.process)
    return Bench(service, session_factory(engine), Target(service.port, tls), roots)


def install(session: Session, machine: PretendMachine, issuer: str, now: datetime) -> list[str]:
    """Write the rows of a machine whose install is done; return the serials of its certificates."""
    put_machine(session, a_declaration(machine.machine, machine_class=CLASS), now)
    session.merge(
        InstallRow(
            machine_id=machine.machine,
            staged=False,
            run_id=uuid.uuid4(),
            enrollment_id=uuid.uuid4(),
            ek_hash=machine.ek.hash,
            lak_public=machine.lak.public.raw,
            lak_name=machine.lak.public.name(),
            lak_unique=b"",
            ldevid_public=machine.ldevid.public.raw,
            ldevid_private=b"\x01" * 126,
            since=now,
        )
    )
    serials = []
    for kind, key in (("ldevid", machine.ldevid), ("lak", machine.lak)):
        serials.append(uuid.uuid4().hex.lstrip("0"))
        session.add(
            CertificateRow(
                serial=serials[-1],
                kind=kind,
                issuer=issuer,
                machine_id=machine.machine,
                enrollment_id=uuid.uuid4(),
                key_hash=sha256(key.public.raw).hexdigest(),
                state=CertificateState.ISSUED,
                taken_at=now,
                not_before=now,
                not_after=now + timedelta(days=365),
                installed_at=now,
            )
        )
    return serials


@dataclass
class Spent:
    """Time that calls took: of the wall clock, and of the processors that served them."""

    wall: float = 0.0
    processors: float = 0.0

    def call(self, bench: Bench, calls: Sequence[Call], a_connection: int = 1) -> list[Answered]:
        """Make the calls, add what they took, and return the answers."""
        before = seconds_of(bench.roots)
        answers, seconds = bench.target.send(calls, threads=THREADS, a_connection=a_connection)
        self.wall += seconds
        self.processors += seconds_of(bench.roots) - before
        return answers

    def print(self, name: str, done: int, unit: str, target: float) -> None:
        """Print both rates."""
        at_least(name, done * CORES / self.processors, unit, target)
        at_least(f"{name}-by-wall-clock", done / self.wall, unit, target)


@dataclass
class Checking:
    """Machines that are checked again and again."""

    bench: Bench
    machines: list[PretendMachine]
    serials: list[list[str]]
    challenges: list[dict[str, Any]]

    @classmethod
    def of(cls, bench: Bench) -> "Checking":
        """Install machines by their rows, and let each make the first check, which makes its baseline."""
        shared = PretendEk()
        kept = [bench.machine(number, shared) for number in range(1, CHECKING + 1)]
        tree = Tree(bench.fleetd.folder / "ca")
        with bench.sessions.begin() as session:
            issuer = tree.issuer(Tier.DEVID).fingerprint
            serials = [install(session, machine, issuer, datetime.now(UTC)) for machine in kept]
        made = cls(bench, kept, serials, [machine.check_challenge() for machine in kept])
        made.round(Spent(), CHECKING)
        return made

    def round(self, spent: Spent, a_connection: int) -> None:
        """Send one check of every machine."""
        calls = []
        for machine, serials, challenge in zip(self.machines, self.serials, self.challenges, strict=True):
            machine.clock = clock_of(datetime.now(UTC))
            calls.append(Call("/v1/checks", dumped(machine.check_body(challenge, serials))))
        answers = spent.call(self.bench, calls, a_connection)
        self.challenges = [following(machine, answer) for machine, answer in zip(self.machines, answers, strict=True)]

    def measure(self, name: str, a_connection: int) -> None:
        """Measure, and print the rates."""
        spent = Spent()
        for _ in range(ROUNDS):
            self.round(spent, a_connection)
        spent.print(name, ROUNDS * len(self.machines), "checks/s", 300)


def clock_of(now: datetime) -> int:
    """Return a TPM's clock, milliseconds, that runs with the time of day."""
    return int(now.timestamp() * 1000) % (1 << 40)


def following(machine: PretendMachine, answer: Answered) -> dict[str, Any]:
    """Return the challenge that the answer to a check carries."""
    told = machine.opened(answer, "fleet-result+jwt")
    assert told["result"] == "ok", told
    assert "certificates" not in told, "its certificates are in force: nothing is issued"
    made: dict[str, Any] = told["next"]
    return made


def measure_enrollments(bench: Bench) -> None:
    """Enroll machines in a run, each with keys of its own: both challenges, activation, two certificates."""
    bound = [bench.machine(10_000 + number, PretendEk()) for number in range(ENROLLING)]
    now = datetime.now(UTC)
    with bench.sessions.begin() as session:
        for machine in bound:
            declared = a_declaration(machine.machine, machine_class=CLASS, keys=(approved(machine.ek),))
            put_run(session, declared, IntentKind.PROVISION, states.Attesting, now)
    spent = Spent()
    asked = [{"version": 1, "purpose": "enroll", "eks": machine.offered()} for machine in bound]
    spent.call(bench, [Call("/v1/challenges", dumped(ask)) for ask in asked])
    # The LAK is made for the `unique` of the first answer on a machine; here it exists, and the second answer counts.
    asked = [{**ask, "lak": machines.text(machine.lak.public.raw)} for ask, machine in zip(asked, bound, strict=True)]
    answers = spent.call(bench, [Call("/v1/challenges", dumped(ask)) for ask in asked])
    bodies = [
        machine.enrollment_body(machine.opened(answer, "fleet-challenge+jwt"))
        for machine, answer in zip(bound, answers, strict=True)
    ]
    spent.call(bench, [Call("/v1/enrollments", dumped(body)) for body in bodies])
    spent.print("enrollments-whole-path", len(bound), "enrollments/s", 40)


def main() -> None:
    """Print one line a measurement."""
    with ExitStack() as stack:
        bench = started(Places(f"bench-{os.getpid()}"), stack)
        checking = Checking.of(bench)
        checking.measure("checks-whole-path", a_connection=1)
        checking.measure("checks-whole-path-kept-alive", a_connection=50)
        measure_enrollments(bench)


if __name__ == "__main__":
    main()
