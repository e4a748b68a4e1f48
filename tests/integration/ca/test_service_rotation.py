"""The service key is replaced only when every machine that answers pins the next one; a crash at any step converges."""

import contextlib
import os
from datetime import timedelta
from uuid import uuid4

import pytest
from cryptography.exceptions import InvalidSignature

from fleetd.ca import service_rotation as steps
from fleetd.ca.generations import FILE, TreeError
from fleetd.ca.rotation import RotationError
from fleetd.ca.service_keys import ServiceKeys, keys_ever
from fleetd.ca.service_rotation import ServiceRotation
from fleetd.ca.signer import KeyFileError, service_key
from fleetd.ca.speaker import AuditSigner
from fleetd.core.exchange.jwk import thumbprint
from fleetd.secret_files import SecretFileError
from fleetd.store.checks import new_check_row
from fleetd.store.enrollments import InstallRow
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow
from tests.integration.http.machines import _decoded


@pytest.fixture
def rotation(sessions, tree, clock):
    return ServiceRotation(sessions, tree, clock)


@pytest.fixture
def keys(tree):
    return ServiceKeys(tree.directory)


@pytest.fixture
def checking(sessions, clock):
    """A machine that checks, and the service keys that it told of."""

    def make(number, pins=(), **state):
        run, blob = uuid4(), b"x"
        with sessions.begin() as session:
            session.add(MachineRow(id=number, node_name=f"node-{number}", created_at=clock.now(), **state))
            session.add(
                InstallRow(
                    machine_id=number, staged=False, run_id=run, enrollment_id=uuid4(), ek_hash="", lak_public=blob,
                    lak_name=blob, lak_unique=blob, ldevid_public=blob, ldevid_private=blob, since=clock.now(),
                )
            )  # fmt: skip
            row = new_check_row(number, run, clock.now())
            row.pins = list(pins)
            session.add(row)

    return make


@pytest.fixture
def tell(sessions):
    def told(number, kids):
        from fleetd.store.checks import CheckRow

        with sessions.begin() as session:
            session.get_one(CheckRow, number).pins = list(kids)

    return told


def test_the_next_key_is_published_first_and_signs_only_after_completion(rotation, keys, tree):
    (old,) = keys().kids()

    assert rotation.begin() == "service-2"
    signing, following = keys().kids()
    assert signing == old
    assert thumbprint(keys().signing.public_key()) == old

    rotation.complete()

    assert keys().kids() == (following,)
    assert thumbprint(keys().signing.public_key()) == following
    assert not (tree.directory / "service.key").exists()
    assert tree.complete


def test_completion_waits_for_every_machine_that_answers_and_names_it(rotation, keys, checking, tell):
    checking(1)
    checking(2, keys().kids())
    rotation.begin()
    tell(1, keys().kids())

    with pytest.raises(RotationError, match="1 machines would not believe service-2: node-2"):
        rotation.complete()
    assert (rotation.status().moved, rotation.status().machines) == (1, 2)
    tell(2, keys().kids())

    assert rotation.complete().waiting == ()


@pytest.mark.parametrize("state", [{"check_state": "lost"}, {"vanished": True}, {"quarantined_at": True}])
def test_a_machine_that_does_not_answer_blocks_nothing_and_is_named(rotation, checking, clock, state):
    checking(1, **{name: clock.now() if name == "quarantined_at" else value for name, value in state.items()})
    rotation.begin()

    assert [holder.node_name for holder in rotation.complete().waiting] == ["node-1"]


def test_a_run_whose_workflow_names_the_old_key_only_blocks_until_it_ends(rotation, sessions, clock):
    run = uuid4()
    with sessions.begin() as session:
        session.add(MachineRow(id=3, node_name="node-3", created_at=clock.now()))
        session.add(
            RunRow(
                id=run, machine_id=3, kind="provision", state_name="installing", state={}, orders={},
                began_at=clock.now(), opened_at=clock.now(),
            )
        )  # fmt: skip
    clock.pass_by(minutes=1)
    rotation.begin()

    with pytest.raises(RotationError, match="node-3: its run began before the rotation"):
        rotation.complete()
    with sessions.begin() as session:
        session.get_one(RunRow, run).ended_at = clock.now()

    rotation.complete()


def test_a_run_that_began_after_the_rotation_carries_both_keys_and_blocks_nothing(rotation, sessions, clock):
    rotation.begin()
    later = clock.now() + timedelta(minutes=1)
    with sessions.begin() as session:
        session.add(
            RunRow(
                id=uuid4(), machine_id=3, kind="provision", state_name="installing", state={}, orders={},
                began_at=later, opened_at=later,
            )
        )  # fmt: skip

    rotation.complete()


def test_an_aborted_rotation_leaves_the_old_key_alone_and_a_number_is_never_used_twice(rotation, keys, tree):
    before = keys().kids()
    rotation.begin()
    rotation.abort()

    assert keys().kids() == before
    assert not (tree.directory / "service-2.key").exists()
    assert rotation.begin() == "service-3"


def test_steps_out_of_order_are_refused_in_words(rotation):
    for step in (rotation.status, rotation.complete, rotation.abort):
        with pytest.raises(RotationError, match="no rotation of the service key is under way"):
            step()
    rotation.begin()
    with pytest.raises(RotationError, match="from service to service-2 is under way"):
        rotation.begin()


STEPS = ["write_key", "write_generations", "keep_public_half"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("phase", ["begin", "complete", "abort"])
def test_a_crash_at_any_step_leaves_a_key_that_signs_and_going_on_converges(
    rotation, keys, tree, monkeypatch, phase, step, when
):
    if phase != "begin":
        rotation.begin()
    real = getattr(steps, step)

    def crash(*arguments):
        if when == "after":
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, step, crash)
    with contextlib.suppress(KeyboardInterrupt):
        getattr(rotation, phase)()
    monkeypatch.setattr(steps, step, real)

    assert keys().signing
    for again in ("complete", "abort") if phase == "abort" else ("begin", "complete"):
        with contextlib.suppress(RotationError):
            getattr(rotation, again)()
    if tree.generations("service").leaving is not None:
        rotation.complete()
    (kid,) = keys().kids()
    assert thumbprint(keys().signing.public_key()) == kid
    assert len(list(tree.directory.glob("service*.key"))) == 1


def test_what_the_old_key_signed_in_the_audit_stays_verifiable(rotation, keys, tree):
    old = AuditSigner(keys).sign(b"digest")
    rotation.begin()
    rotation.complete()
    new = AuditSigner(keys).sign(b"digest")
    ever = keys_ever(tree.directory)

    assert len(ever) == 2
    for signature in (old, new):
        assert any(_verifies(key, signature) for key in ever)


def _verifies(key, signature):
    try:
        key.verify(_decoded(signature), b"digest")
    except InvalidSignature:
        return False
    return True


def _another_mode(tree):
    (tree.directory / "service-2.key").chmod(0o640)


def _another_owner(tree):
    os.chown(tree.directory / "service-2.key", 12345, -1)


def _half_written(tree):
    file = tree.directory / "service-2.key"
    file.write_text(file.read_text()[:40])


def _missing(tree):
    (tree.directory / "service-2.key").unlink()


def _generations_torn(tree):
    (tree.directory / FILE).write_text('{"service": {"act')


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another owner is made by root only")
@pytest.mark.parametrize("harm", [_another_mode, _another_owner, _half_written, _missing, _generations_torn])
def test_an_unusable_set_of_keys_is_refused_in_words_and_the_old_set_stays_in_force(rotation, keys, tree, harm):
    before = keys().kids()
    rotation.begin()
    harm(tree)

    assert keys().kids() == before
    assert str(tree.directory) in keys.problem
    with pytest.raises((KeyFileError, SecretFileError, TreeError)):
        ServiceKeys(tree.directory)()


def test_a_set_that_was_mended_is_taken(rotation, keys, tree):
    keys()
    rotation.begin()
    (tree.directory / "service-2.key").chmod(0o644)
    keys()
    assert keys.problem
    (tree.directory / "service-2.key").chmod(0o600)

    assert len(keys().kids()) == 2
    assert keys.problem == ""


def test_what_a_lost_key_signed_stays_verifiable(rotation, tree):
    lost = service_key(tree.service_key_file).public_key()
    rotation.begin()
    (tree.directory / "service.key").unlink()

    rotation.complete()

    assert [thumbprint(key) for key in keys_ever(tree.directory)][-1] == thumbprint(lost)


def test_a_key_that_cannot_be_read_is_not_rotated_away(rotation, tree):
    tree.service_key_file.chmod(0o644)

    with pytest.raises(SecretFileError, match="mode 0644"):
        rotation.begin()

    assert not (tree.directory / "service-2.key").exists()
