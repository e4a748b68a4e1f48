"""The machine listener over a real database and a real authority, with a clock that the test moves."""

import os
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from sqlalchemy.orm import sessionmaker

import fleetd.store.tables  # noqa: F401 - all tables
from fleetd.app.exchange import Exchange, ExchangeSettings
from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.service_keys import ServiceKeys
from fleetd.ca.signer import service_key
from fleetd.ca.speaker import ServiceSpeaker
from fleetd.ca.tree import Tree, make_tree
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.classes import parse_classes
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.host import SystemRandom
from fleetd.http.machine import MachineParts, machine_app
from fleetd.seeds.rendering import SeedRenderer
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.schema import Base
from tests.clocks import SetClock
from tests.integration.http import machines
from tests.talos import VALUES, a_bundle

CHECKOUT = Path(__file__).resolve().parents[3]
URL = "https://fleetd.example.org:7443"


@dataclass
class Declared:
    """What NetBox says of each machine, as an Inventory."""

    records: dict = field(default_factory=dict)

    def declaration(self, machine):
        return self.records.get(machine)


def a_class(name, family, **changes):
    return {
        "name": name,
        "family": family,
        "image": {"url": "http://images.example.org/x.img", "sha256": "ab" * 32, "size": 1 << 20},
        "attestation": {
            "install": {"boot": "network-trusted"},
            "ek_certificate": "optional",
            "allow_secrets_in_network_trusted": True,
        },
        **changes,
    }


TALOS = {"template": "talos-worker.yaml", "secrets": ["talos-secrets.yaml"], "values": VALUES}
CLASSES = {
    "classes": [
        a_class("lab-alpine", "alpine-image"),
        a_class("lab-cloud-init", "cloud-init-nocloud", seed={"template": "cloud-init-basic"}),
        a_class("lab-talos", "talos", seed=TALOS),
        a_class(
            "strict",
            "alpine-image",
            attestation={"install": {"boot": "network-trusted"}, "ek_certificate": "optional"},
        ),
    ]
}


@dataclass
class Service:
    """A running machine listener and what stands behind it."""

    client: TestClient
    exchange: Exchange
    clock: SetClock
    sessions: sessionmaker
    declared: Declared
    key: object
    woken: list
    tree: Tree

    def machine(self, number=7, **fields):
        fields.setdefault("ek", machines.pretend_ek(number))
        return machines.PretendMachine(self.client, self.key, number, **fields)

    def declare(self, declaration):
        self.declared.records[declaration.machine] = declaration
        with self.sessions.begin() as session:
            machines.put_machine(session, declaration, self.clock.now())

    def run(self, declaration, kind=IntentKind.PROVISION, state=states.Attesting):
        self.declared.records[declaration.machine] = declaration
        with self.sessions.begin() as session:
            return machines.put_run(session, declaration, kind, state, self.clock.now())

    def move(self, run, state):
        with self.sessions.begin() as session:
            machines.move_run(session, run, state, self.clock.now())

    def enrolled(self, number=7, state=states.Attesting, kind=IntentKind.PROVISION, **changes):
        """A machine with an approved key that has enrolled in a run."""
        machine = self.machine(number)
        declaration = machines.a_declaration(number, keys=(machines.approved(machine.ek),), **changes)
        run = self.run(declaration, kind, state)
        answer = machine.enroll()
        assert answer.status_code == 200, answer.text
        return machine, run


@pytest.fixture(scope="session")
def tables(postgres):
    """A database with all tables, to be copied: creating them takes longer than copying."""
    name = f"tables_{uuid.uuid4().hex[:8]}"
    postgres.create(name)
    engine = open_engine(postgres.url(name))
    Base.metadata.create_all(engine)
    engine.dispose()
    yield name
    postgres.drop(name)


@pytest.fixture
def database(postgres, tables):
    name = f"t_{uuid.uuid4().hex[:12]}"
    postgres.create(name, tables)
    yield postgres.url(name)
    postgres.drop(name)


def an_exchange(sessions, clock, folder, classes, **settings):
    """fleetd's use cases on this database, and a CA of their own in the folder."""
    random = SystemRandom()
    tree = make_tree(folder / "ca", "Example", URL, clock.now(), random)
    secrets = folder / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / "talos-secrets.yaml").touch(0o600)
    (secrets / "talos-secrets.yaml").write_text(yaml.safe_dump(a_bundle()))
    book = parse_classes(classes)
    return Exchange(
        sessions=sessions,
        clock=clock,
        random=random,
        server_key=os.urandom(32),
        speaker=ServiceSpeaker(ServiceKeys(tree.directory)),
        issuer=FleetIssuer(sessions, tree, clock, random, URL),
        classes=lambda: book,
        seeds=SeedRenderer(CHECKOUT / "templates", secrets),
        inventory=Declared(),
        roots=TrustStore.of,
        settings=ExchangeSettings(public_url=URL, ca_pem="PEM", **settings),
    )


@pytest.fixture
def service(database, tmp_path):
    engine, clock, woken = open_engine(database), SetClock(machines.noon()), []
    sessions = session_factory(engine)
    exchange = an_exchange(sessions, clock, tmp_path, CLASSES, pending_keys=4, pending_keys_per_address=3)
    exchange = replace(exchange, wake=woken.append)
    tree = Tree(tmp_path / "ca")
    key = service_key(tree.service_key_file).public_key()
    app = machine_app(MachineParts(exchange, lambda kind, name: None, calls_per_minute=10_000))
    with TestClient(app, base_url=URL, raise_server_exceptions=True) as client:
        yield Service(client, exchange, clock, sessions, exchange.inventory, key, woken, tree)
    engine.dispose()
