"""An issuing CA is replaced while machines go on, and a crash at any step converges."""

import json
import os
import subprocess

import pytest
from cryptography import x509
from sqlalchemy import select

from fleetd.ca import rotation as steps
from fleetd.ca.generations import FILE, TreeError
from fleetd.ca.revoking import FleetAuthority, sign_root_list
from fleetd.ca.rotation import Rotation, RotationError
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import keep_server_certificate, make_tree
from fleetd.core.certificates.profile import Tier
from fleetd.host import SystemRandom
from fleetd.ports import OutageError
from fleetd.store.certificates import CertificateRow
from fleetd.store.machines import MachineRow
from tests.integration.ca.conftest import an_order, not_withdrawn

URL = "https://fleetd.example.org:7443"


@pytest.fixture
def rotation(sessions, tree, authority, clock):
    return Rotation(sessions, tree, authority, clock, SystemRandom(), URL)


@pytest.fixture
def machines(sessions, issuer, clock):
    """Enroll machines by number; each uses its certificates."""

    def enroll(*numbers, **state):
        for number in numbers:
            with sessions.begin() as session:
                session.add(MachineRow(id=number, node_name=f"node-{number}", created_at=clock.now(), **state))
            issued = issuer.issue(an_order(number))
            issuer.installed(number, (issued.ldevid_serial, issued.lak_serial))

    return enroll


@pytest.fixture
def renew(issuer, clock):
    """Do what a boot check does: take new certificates when they are due, and name them at the next."""

    def check(number):
        clock.pass_by(hours=1)
        assert issuer.renewal_due(number)
        issued = issuer.issue(an_order(number))
        issuer.installed(number, (issued.ldevid_serial, issued.lak_serial))
        return issued

    return check


def serials(der):
    return {f"{entry.serial_number:x}" for entry in x509.load_der_x509_crl(der)}


def verified(certificate, chain, root, folder, clock):
    (folder / "leaf.pem").write_text(certificate)
    (folder / "chain.pem").write_text("".join(chain))
    done = subprocess.run(
        ["openssl", "verify", "-attime", str(int(clock.now().timestamp())), "-CAfile", str(root),
         "-untrusted", str(folder / "chain.pem"), str(folder / "leaf.pem")],
        capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 0


def test_a_whole_rotation_moves_every_machine_and_ends_the_old_authority(
    rotation, issuer, authority, machines, renew, tree, clock, tmp_path
):
    machines(1, 2)
    old_certificate, old = tree.certificate(Tier.DEVID), issuer.current(1)

    new = rotation.begin(Tier.DEVID)

    assert new.name == "devid-2"
    assert verified(old.certificates.ldevid, old.certificates.chain, tree.directory / "root.pem", tmp_path, clock)
    assert rotation.status(Tier.DEVID).moved == 0
    moved = renew(1)
    assert verified(moved.certificates.ldevid, moved.certificates.chain, tree.directory / "root.pem", tmp_path, clock)
    assert [holder.node_name for holder in rotation.status(Tier.DEVID).waiting] == ["node-2"]
    with pytest.raises(RotationError, match="node-2"):
        rotation.complete(Tier.DEVID)
    renew(2)

    done = rotation.complete(Tier.DEVID)

    assert (done.moved, done.machines) == (2, 2)
    assert not (tree.directory / "devid.key").exists()
    assert tree.chain(Tier.DEVID) == (new.certificate, tree.certificate(Tier.ROOT))
    assert f"{old_certificate.serial_number:x}" in serials(authority.revocation_list("root"))
    assert not issuer.renewal_due(1)


def test_certificates_of_both_authorities_name_their_own_list_and_are_revoked_there(
    rotation, issuer, authority, machines, tree
):
    machines(1)
    first = issuer.current(1)
    rotation.begin(Tier.DEVID)
    second = issuer.issue(an_order(1))
    point = (
        x509.load_pem_x509_certificate(second.certificates.ldevid.encode())
        .extensions.get_extension_for_class(x509.CRLDistributionPoints)
        .value[0]
    )

    authority.revoke(1, "keyCompromise")

    assert point.full_name[0].value == f"{URL}/v1/crl/devid-2"
    assert serials(authority.revocation_list("devid")) == {first.ldevid_serial}
    assert serials(authority.revocation_list("devid-2")) == {second.ldevid_serial}
    for name in ("devid", "devid-2"):
        listed = x509.load_der_x509_crl(authority.revocation_list(name))
        assert listed.is_signature_valid(tree.named(name).certificate.public_key())


@pytest.mark.parametrize("state", ["lost", "quarantined", "unknown"])
def test_a_machine_that_does_not_count_blocks_nothing_is_named_and_must_enroll_again(
    rotation, issuer, machines, sessions, clock, state
):
    machines(1)
    with sessions.begin() as session:
        row = session.get_one(MachineRow, 1)
        if state == "lost":
            row.check_state = "lost"
        elif state == "quarantined":
            row.quarantined_at = clock.now()
        else:
            session.delete(row)
    before = issuer.current(1)
    rotation.begin(Tier.DEVID)

    done = rotation.complete(Tier.DEVID)

    assert [holder.machine for holder in done.waiting] == [1]
    assert not not_withdrawn(issuer, 1, before.ldevid_serial)
    assert not_withdrawn(issuer, 1, before.lak_serial), "the other authority is not touched"


def test_the_last_list_of_a_retired_authority_holds_as_long_as_its_certificates_could(
    rotation, authority, machines, renew, issuer, tree, clock
):
    machines(1)
    old = tree.issuer(Tier.AK)
    rotation.begin(Tier.AK)
    superseded = issuer.current(1).lak_serial
    renew(1)
    rotation.complete(Tier.AK)
    clock.pass_by(days=30)

    authority.keep_fresh()
    authority.revoke(1, "keyCompromise")
    last = authority.revocation_list("ak")

    assert x509.load_der_x509_crl(last).next_update_utc == old.certificate.not_valid_after_utc
    assert superseded in serials(last)


def test_a_rotation_can_be_aborted_only_while_the_new_authority_has_issued_nothing(
    rotation, issuer, machines, renew, tree
):
    machines(1)
    before = tree.issuer(Tier.DEVID).fingerprint
    rotation.begin(Tier.DEVID)
    rotation.abort(Tier.DEVID)
    assert tree.issuer(Tier.DEVID).fingerprint == before
    assert not issuer.renewal_due(1)
    assert rotation.begin(Tier.DEVID).name == "devid-3", "a number is never used twice"
    renew(1)

    with pytest.raises(RotationError, match="has issued 1 certificates already"):
        rotation.abort(Tier.DEVID)

    assert tree.issuer(Tier.DEVID).name == "devid-3"


def test_an_issuance_that_began_under_an_aborted_authority_gives_no_certificate(
    rotation, issuer, sessions, monkeypatch
):
    rotation.begin(Tier.DEVID)
    real = type(issuer)._take_serials

    def aborted_meanwhile(*arguments):
        rotation.abort(Tier.DEVID)
        monkeypatch.setattr(type(issuer), "_take_serials", real)
        return real(*arguments)

    monkeypatch.setattr(type(issuer), "_take_serials", aborted_meanwhile)
    with pytest.raises(OutageError, match="out of force"):
        issuer.issue(an_order())

    with sessions() as session:
        assert not session.scalars(select(CertificateRow).where(CertificateRow.state == "issued")).all()
    assert issuer.issue(an_order())


def test_a_rotation_needs_the_roots_key(rotation, tree):
    (tree.directory / "root.key").rename(tree.directory.parent / "offline")

    with pytest.raises(RotationError, match="bring it back"):
        rotation.begin(Tier.AK)

    assert tree.issuer(Tier.AK).name == "ak"


def test_steps_out_of_order_are_refused_in_words(rotation):
    for step in (rotation.status, rotation.complete, rotation.abort):
        with pytest.raises(RotationError, match="no rotation of devid is under way"):
            step(Tier.DEVID)
    rotation.begin(Tier.DEVID)
    with pytest.raises(RotationError, match="from devid to devid-2 is under way"):
        rotation.begin(Tier.DEVID)
    with pytest.raises(RotationError, match="ca init"):
        rotation.begin(Tier.ROOT)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["make_authority", "write_generations", "replace_file"])
def test_a_crash_while_a_rotation_begins_leaves_an_authority_in_force_and_beginning_again_converges(
    rotation, issuer, tree, monkeypatch, step, when
):
    real = getattr(steps, step)

    def crash(*arguments):
        if when == "after":
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, step, crash)
    with pytest.raises(KeyboardInterrupt):
        rotation.begin(Tier.DEVID)
    monkeypatch.setattr(steps, step, real)

    assert issuer.issue(an_order())
    if tree.generations(Tier.DEVID).leaving is None:
        rotation.begin(Tier.DEVID)
    assert [each.name for each in tree.in_force(Tier.DEVID)] == ["devid-2", "devid"]
    assert issuer.issue(an_order())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["write_generations", "retire_issuer", "replace_file", "sign_last_list"])
def test_a_crash_while_a_rotation_completes_converges_when_it_is_completed_again(
    rotation, issuer, authority, machines, tree, monkeypatch, step, when
):
    machines(1, check_state="lost")
    left = issuer.current(1).ldevid_serial
    rotation.begin(Tier.DEVID)
    place = FleetAuthority if step == "sign_last_list" else steps
    real = getattr(place, step)

    def crash(*arguments):
        if when == "after":
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(place, step, crash)
    with pytest.raises(KeyboardInterrupt):
        rotation.complete(Tier.DEVID)
    monkeypatch.setattr(place, step, real)

    if tree.generations(Tier.DEVID).leaving is None:
        with pytest.raises(RotationError, match="no rotation"):
            rotation.complete(Tier.DEVID)
    else:
        rotation.complete(Tier.DEVID)
    assert not (tree.directory / "devid.key").exists()
    assert left in serials(authority.revocation_list("devid"))
    assert not not_withdrawn(issuer, 1, left)


def test_the_server_ca_is_replaced_below_the_root_that_machines_know(rotation, tree, clock, tmp_path):
    keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())
    rotation.begin(Tier.SERVER)
    with pytest.raises(RotationError, match="own TLS certificate is still of server"):
        rotation.complete(Tier.SERVER)

    assert keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())
    rotation.complete(Tier.SERVER)

    leaf, *links = tree.server_files[0].read_text().partition("-----END CERTIFICATE-----\n")
    assert verified(leaf + links[0], [links[1]], tree.directory / "root.pem", tmp_path, clock)
    assert not keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())


def test_a_revocation_whose_publication_was_cut_off_is_published_by_the_next_look(
    issuer, authority, sessions, monkeypatch
):
    issued = issuer.issue(an_order())
    authority.keep_fresh()
    monkeypatch.setattr(FleetAuthority, "_publish", lambda *_: None)
    authority.hold(7)
    assert authority.keep_fresh() == ("devid", "ak")
    assert issued.ldevid_serial in serials(authority.revocation_list("devid"))
    authority.release(7)

    assert authority.keep_fresh() == ("devid", "ak")
    assert not serials(authority.revocation_list("devid"))
    assert authority.keep_fresh() == ()


def test_a_list_that_nobody_signs_is_none(authority):
    assert authority.revocation_list("nobody") is None
    assert authority.revocation_list("root") is None


@pytest.mark.parametrize("content", ["", "[]", '{"devid": {}}', '{"devid": {"active": 0, "leaving": null, "retired": [], "last": 1}}'])  # fmt: skip
def test_a_generations_file_that_fleetd_did_not_write_is_refused(tree, content):
    (tree.directory / FILE).write_text(content)

    with pytest.raises(TreeError, match=FILE):
        tree.issuer(Tier.DEVID)


def test_an_authority_whose_key_was_lost_is_replaced_and_what_it_issued_is_revoked(
    rotation, authority, issuer, machines, renew, tree
):
    machines(1, 2)
    with_old = issuer.current(2)
    authority.keep_fresh()
    (tree.directory / "devid.key").unlink()

    rotation.begin(Tier.DEVID)
    renew(1)
    assert authority.revocation_list("devid-2")
    with pytest.raises(RotationError, match="node-2"):
        rotation.complete(Tier.DEVID)
    with rotation.sessions.begin() as session:
        session.get(MachineRow, 2).check_state = "lost"
    rotation.complete(Tier.DEVID)

    assert not not_withdrawn(issuer, 2, with_old.ldevid_serial)
    root = x509.load_der_x509_crl(authority.revocation_list("root"))
    assert root.get_revoked_certificate_by_serial_number(tree.retired(Tier.DEVID)[0].certificate.serial_number)


def test_an_authority_past_its_end_is_replaced(rotation, authority, issuer, tree, clock):
    issuer.issue(an_order())
    clock.pass_by(days=5 * 365 + 1)

    rotation.begin(Tier.DEVID)
    rotation.complete(Tier.DEVID)

    assert not (tree.directory / "devid.key").exists()
    last = x509.load_der_x509_crl(authority.revocation_list("devid"))
    assert last.next_update_utc > clock.now()


def test_a_crash_while_a_rotation_is_aborted_leaves_no_key_once_it_is_aborted_again(rotation, tree, monkeypatch):
    rotation.begin(Tier.DEVID)
    real = Rotation._clear_up

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Rotation, "_clear_up", crash)
    with pytest.raises(KeyboardInterrupt):
        rotation.abort(Tier.DEVID)
    monkeypatch.setattr(Rotation, "_clear_up", real)
    assert (tree.directory / "devid-2.key").exists()

    with pytest.raises(RotationError, match="no rotation"):
        rotation.abort(Tier.DEVID)

    assert not list(tree.directory.glob("devid-2.*"))


@pytest.mark.parametrize("step", ["begin", "complete"])
def test_the_key_of_another_root_changes_nothing(rotation, tree, tmp_path, clock, step):
    own = tree.root_key_file.read_bytes()
    if step == "complete":
        rotation.begin(Tier.DEVID)
    other = make_tree(tmp_path / "other", "Example", URL, clock.now(), SystemRandom())
    tree.root_key_file.write_bytes(other.root_key_file.read_bytes())
    before = {file.name: file.read_bytes() for file in tree.directory.iterdir()}

    with pytest.raises(KeyFileError, match=r"root\.key is not the key of .*root\.pem"):
        getattr(rotation, step)(Tier.DEVID)
    with pytest.raises(KeyFileError, match=r"root\.key is not the key of .*root\.pem"):
        sign_root_list(tree, clock.now())

    assert {file.name: file.read_bytes() for file in tree.directory.iterdir()} == {"changes.lock": b""} | before
    tree.root_key_file.write_bytes(own)
    getattr(rotation, step)(Tier.DEVID)


def test_the_roots_list_keeps_the_day_on_which_an_authority_was_retired(rotation, tree, clock):
    rotation.begin(Tier.DEVID)
    rotation.complete(Tier.DEVID)
    (first,) = x509.load_der_x509_crl(tree.root_list_file.read_bytes())
    clock.pass_by(days=300)

    (again,) = x509.load_der_x509_crl(sign_root_list(tree, clock.now()))

    assert again.revocation_date_utc == first.revocation_date_utc


@pytest.mark.parametrize(
    "told",
    [
        [],
        "x",
        {"active": 2, "leaving": 2, "retired": [], "last": 2},
        {"active": 1, "leaving": None, "retired": [1], "last": 1},
        {"active": True, "leaving": None, "retired": [], "last": 1},
        {"active": 2, "leaving": 1, "retired": [], "last": 2},
        {"active": 2, "leaving": 1, "retired": [], "last": 2, "since": "2026-03-01T12:00:00"},
    ],
)
def test_generations_that_cannot_be_are_refused(tree, told):
    (tree.directory / FILE).write_text(json.dumps({"devid": told}))

    with pytest.raises(TreeError, match="restore it from the backup"):
        tree.in_force(Tier.DEVID)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes into the directory of another user")
def test_root_leaves_no_keys_that_the_service_cannot_read(rotation, tree):
    before = sorted(file.name for file in tree.directory.iterdir())
    os.chown(tree.directory, 12345, -1)

    with pytest.raises(PermissionError, match=r"belongs to user 12345.* run this as that user"):
        rotation.begin(Tier.DEVID)

    assert sorted(file.name for file in tree.directory.iterdir()) == before


def test_a_server_certificate_without_names_is_made_anew(tree, clock):
    tree.server_files[0].write_bytes((tree.directory / "server.pem").read_bytes())
    tree.server_files[1].touch(0o600)
    tree.server_files[1].write_bytes((tree.directory / "server.key").read_bytes())

    assert keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())
