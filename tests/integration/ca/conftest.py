"""An authority over a real database, with a clock that the test moves and a machine's keys made in software."""

from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.revoking import FleetAuthority
from fleetd.ca.tree import make_tree
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    EccPoint,
    Scheme,
    marshal_public,
)
from fleetd.core.certificates.order import IssueOrder
from fleetd.core.names import MachineId
from fleetd.host import SystemRandom
from fleetd.store import certificates, pins  # noqa: F401 - their tables and the machines
from fleetd.store.schema import Base
from tests.clocks import SetClock

SIGNING = (
    Attribute.FIXED_TPM
    | Attribute.FIXED_PARENT
    | Attribute.SENSITIVE_DATA_ORIGIN
    | Attribute.USER_WITH_AUTH
    | Attribute.SIGN
)


TABLES = (
    "certificate",
    "revocation_list",
    "issuance_pause",
    "machines",
    "check_state",
    "install",
    "runs",
    "audit",
    "marks",
)


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def sessions(empty_database):
    engine = create_engine(empty_database)
    Base.metadata.create_all(engine, tables=[Base.metadata.tables[name] for name in TABLES])
    yield sessionmaker(engine, expire_on_commit=False)
    engine.dispose()


@pytest.fixture
def tree(tmp_path, clock):
    return make_tree(tmp_path / "ca", "Example", "https://fleetd.example.org:7443", clock.now(), SystemRandom())


@pytest.fixture
def issuer(sessions, tree, clock):
    return FleetIssuer(sessions, tree, clock, SystemRandom(), "https://fleetd.example.org:7443")


@pytest.fixture
def authority(sessions, tree, clock):
    return FleetAuthority(sessions, tree, clock)


def public_area():
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    return marshal_public(
        Algorithm.ECC,
        SIGNING,
        EccParameters(None, Scheme(Algorithm.ECDSA, Algorithm.SHA256), Curve.P256, Scheme(Algorithm.NULL)),
        EccPoint(numbers.x.to_bytes(32), numbers.y.to_bytes(32)),
    )


def an_order(machine=7, **changes):
    order = {
        "enrollment": uuid4(),
        "machine": MachineId(machine),
        "node_name": f"node-{machine}",
        "device_serial": f"SN{machine}",
        "machine_class": SimpleNamespace(certificate_lifetime=timedelta(days=365)),
        "lak_public": public_area(),
        "ldevid_public": public_area(),
        "ek_public": public_area(),
        "ek_certificate": None,
        "facts": {"tpm": {"manufacturer": "IBM", "model": "swtpm", "version": "7.1"}},
    }
    return IssueOrder(**{**order, **changes})


def not_withdrawn(issuer, machine, *serials):
    """Whether these are certificates of the machine, and none was revoked for anything but replacement."""
    with issuer.sessions() as session:
        reasons = {row.serial: row.reason for row in certificates.certificates_of(session, machine)}
    return all(reasons.get(serial) in {"", "superseded"} for serial in serials)
