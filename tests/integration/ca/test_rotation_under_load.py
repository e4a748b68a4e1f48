"""Everything that can be rotated is rotated while many machines go on checking against a running fleetd: no check fails."""

import ssl
import threading
import time
import uuid
from dataclasses import dataclass, field

import httpx
import pytest

import fleetd.store.tables
from fleet_lab.classes import Image, lab_light
from fleet_lab.fleetd_service import new_service, secret_file
from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.revoking import FleetAuthority
from fleetd.ca.rotation import Rotation
from fleetd.ca.service_keys import ServiceKeys
from fleetd.ca.service_rotation import ServiceRotation
from fleetd.ca.tree import Tree
from fleetd.core.certificates.profile import Tier
from fleetd.store.checks import CheckRow
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.enrollments import InstallRow
from fleetd.wiring import SystemClock, SystemRandom
from tests.integration.http import machines
from tests.unit.attestation.evidence import a_boot, ecc_key, ldevid_key

MACHINES = [50, pytest.param(200, marks=pytest.mark.soak)]
THREADS, A_CONNECTION = 6, 20
PATIENCE = 600.0
CLASS = "lab-light"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass
class Checkers:
    """Machines that check again and again, each with the certificates and pins that it was given last."""

    url: str
    tls: ssl.SSLContext
    fleet: list[machines.PretendMachine]
    failures: list[str] = field(default_factory=list)
    rounds: dict[int, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def start(self):
        self.threads = [threading.Thread(target=self.work, args=(part,)) for part in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def work(self, part):
        mine, following = self.fleet[part::THREADS], {}
        while not self.over.is_set():
            for begin in range(0, len(mine), A_CONNECTION):
                # New connections all the time: they meet the TLS certificate that is in force.
                with httpx.Client(base_url=self.url, verify=self.tls, timeout=60) as client:
                    for machine in mine[begin : begin + A_CONNECTION]:
                        self.check(machine, client, following)

    def check(self, machine, client, following):
        machine.client, machine.clock = client, int(time.monotonic() * 1000)
        try:
            told = machine.live_on(following.get(machine.machine))
            assert told["result"] == "ok", told["findings"]
            following[machine.machine] = told["next"]
            self.rounds[machine.machine] = self.rounds.get(machine.machine, 0) + 1
        except Exception as error:  # noqa: BLE001 - whatever it is, a check was lost
            self.failures.append(f"machine {machine.machine}: {type(error).__name__}: {error}"[:500])

    def until(self, reached, what):
        """Wait while they check. A check that failed ends it at once."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert not self.failures, self.failures[:3]
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
            time.sleep(0.5)

    def everybody_checks_twice_more(self):
        before = dict(self.rounds)
        self.until(
            lambda: all(self.rounds.get(each.machine, 0) >= before.get(each.machine, 0) + 2 for each in self.fleet),
            "two more checks of each machine",
        )

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def fleetd(lab_places, postgres, valkey):
    name = f"load_{uuid.uuid4().hex[:8]}"
    postgres.create(name)
    folder = lab_places.state / "fleetd"
    folder.mkdir(parents=True, exist_ok=True)
    made = lab_light(Image("none", "00" * 32, 1 << 20), "http://127.0.0.1:1", name=CLASS)
    made["attestation"]["ek_certificate"] = "optional"
    classes = folder / "classes.json"
    classes.write_bytes(httpx.Request("POST", "http://x", json={"version": 1, "classes": [made]}).content)
    password = secret_file(folder / "broker.password", valkey.password)
    unbounded = 10_000_000
    service = new_service(
        lab_places,
        {
            "database": {"url": postgres.url(name)},
            "broker": {"url": f"redis://127.0.0.1:{valkey.port}/0", "password_file": password},
            "netbox": {"token_file": secret_file(folder / "netbox.token", "none")},
            "paths": {"classes_file": classes},
            "machine": {"host": "127.0.0.1", "processes": 2, "names": ["127.0.0.1"]},
            # All machines share one address.
            "caps": {"calls_per_minute": unbounded, "certificates_per_minute": unbounded},
        },
    )
    service.command("migrate")
    service.command("ca", "init")
    service.start("serve")
    engine = open_engine(postgres.url(name))
    yield service, session_factory(engine)
    service.stop()
    engine.dispose()
    postgres.drop(name)


def enroll(sessions, fleet):
    now = SystemClock().now()
    ek = machines.pretend_ek(0)
    with sessions.begin() as session:
        session.add(
            EndorsementKeyRow(
                public_hash=ek.hash, public=ek.public.raw, name=ek.public.name(), key_type="rsa2048",
                first_seen=now, last_seen=now, waits_since=now,
            )
        )  # fmt: skip
        for machine in fleet:
            machines.put_machine(session, machines.a_declaration(machine.machine, machine_class=CLASS), now)
            session.add(
                InstallRow(
                    machine_id=machine.machine, staged=False, run_id=uuid.uuid4(), enrollment_id=uuid.uuid4(),
                    ek_hash=ek.hash, lak_public=machine.lak.public.raw, lak_name=machine.lak.public.name(),
                    lak_unique=b"", ldevid_public=machine.ldevid.public.raw, ldevid_private=b"", since=now,
                )
            )  # fmt: skip


@pytest.mark.parametrize("many", MACHINES)
def test_machines_go_on_checking_while_everything_is_rotated(fleetd, many):
    service, sessions = fleetd
    url = f"https://127.0.0.1:{service.port}"
    tree, clock, random = Tree(service.folder / "ca"), SystemClock(), SystemRandom()
    keys, log = ServiceKeys(tree.directory), a_boot()
    first = dict(zip(keys().kids(), keys().public, strict=True))
    fleet = [
        machines.PretendMachine(
            None,
            None,
            number,
            ek=machines.pretend_ek(0),
            lak=ecc_key(),
            ldevid=ldevid_key(),
            log=log,
            pinned=dict(first),
        )
        for number in range(1, many + 1)
    ]
    enroll(sessions, fleet)
    authority = FleetAuthority(sessions, tree, clock)
    issuing = Rotation(sessions, tree, authority, clock, random, url)
    speaking = ServiceRotation(sessions, tree, clock)
    served = [_served(service.port)]
    checkers = Checkers(url, ssl.create_default_context(cafile=str(tree.directory / "root.pem")), fleet)
    checkers.start()
    try:
        checkers.until(lambda: all(machine.serials for machine in fleet), "the first certificates")
        checkers.everybody_checks_twice_more()
        for tier in (Tier.DEVID, Tier.AK):
            service.command("ca", "rotate", "begin", tier)
            checkers.until(lambda tier=tier: not issuing.status(tier).waiting, f"everybody moved to the new {tier}")
            service.command("ca", "rotate", "complete", tier)
            checkers.everybody_checks_twice_more()
        service.command("ca", "rotate", "begin", "server")
        checkers.until(lambda: _served(service.port) != served[0], "the new TLS certificate is served")
        service.command("ca", "rotate", "complete", "server")
        service.command("ca", "rotate", "begin", "service")
        checkers.until(lambda: not speaking.status().waiting, "everybody pins the next service key")
        service.command("ca", "rotate", "complete", "service")
        checkers.everybody_checks_twice_more()
    finally:
        checkers.stop()

    assert checkers.failures == []
    assert {tuple(machine.pinned) for machine in fleet} == {keys().kids()}
    assert not first.keys() & set(keys().kids())
    issuer = FleetIssuer(sessions, tree, clock, random, url)
    assert not [machine.machine for machine in fleet if issuer.renewal_due(machine.machine)]
    with sessions() as session:
        assert {row.result for row in session.query(CheckRow)} == {"ok"}
    assert [tree.issuer(tier).name for tier in (Tier.DEVID, Tier.AK, Tier.SERVER)] == ["devid-2", "ak-2", "server-2"]


def _served(port):
    return ssl.get_server_certificate(("127.0.0.1", port))
