"""TLS files are tested as a set before they serve; whatever is wrong with a new set, the one before stays in force."""

import os
import ssl
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fleetd.ca.generations import TreeError
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import keep_server_certificate
from fleetd.core.certificates.profile import BACKDATED, DeviceRequest, Kind, Tier, TpmIdentity, device_builder
from fleetd.host import SystemRandom
from fleetd.http.tls import FollowedTls, TlsFilesError
from fleetd.secret_files import SecretFileError

NAMES = ["fleetd.example.org", "127.0.0.1"]


def renew(tree, clock):
    return keep_server_certificate(tree, NAMES, clock.now(), SystemRandom())


@pytest.fixture
def own(tree, clock):
    """fleetd's own TLS certificate, in force."""
    renew(tree, clock)
    return FollowedTls(*tree.server_files, clock.now)


def served(tls, name=None):
    """The serial number of the certificate that a client is shown."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = asking.wrap_bio(down, up, server_hostname=name), tls.context.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return x509.load_der_x509_certificate(client.getpeercert(binary_form=True)).serial_number


def on_disk(tree):
    return x509.load_pem_x509_certificate(tree.server_files[0].read_bytes()).serial_number


def test_a_renewed_certificate_is_served_without_a_restart(own, tree, clock):
    before = served(own)
    clock.pass_by(days=61)
    assert renew(tree, clock)

    assert own.look()

    assert served(own) == on_disk(tree) != before
    assert own.problem == ""
    assert not own.look(), "nothing changed since"


@pytest.mark.parametrize("kinds", [("ec", "rsa"), ("rsa", "ec"), ("ec", "ed25519")])
def test_a_set_of_another_kind_of_key_replaces_the_one_before(tmp_path, clock, kinds):
    files = tmp_path / "own.pem", tmp_path / "own.key"
    before, after = (self_signed(kind, clock) for kind in kinds)
    put(files, before)
    tls = FollowedTls(*files, clock.now)
    assert served(tls) == before[0].serial_number

    put(files, after)

    assert tls.look()
    assert served(tls) == served(tls, "fleetd.example.org") == after[0].serial_number


def self_signed(kind, clock):
    key = {
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }[kind]()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, kind)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(clock.now())
        .not_valid_after(clock.now() + timedelta(days=90))
        .sign(key, None if kind == "ed25519" else SHA256())
    )
    return made, key


def put(files, made):
    certificate, key = made
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].touch(0o600)
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def test_a_certificate_with_any_octet_damaged_leaves_the_set_before_in_force(own, tree):
    before, file = served(own), tree.server_files[0]
    good = x509.load_pem_x509_certificates(file.read_bytes())[0].public_bytes(Encoding.DER)
    for place in range(0, len(good), 3):
        damaged = good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :]
        file.write_text(ssl.DER_cert_to_PEM_cert(damaged))
        own.look()

    file.write_text("nothing")
    assert not own.look()
    assert served(own)
    file.write_text(ssl.DER_cert_to_PEM_cert(good))
    assert own.look()
    assert served(own) == before
    assert own.problem == ""


def _another_mode(tree, clock):
    tree.server_files[1].chmod(0o640)


def _another_owner(tree, clock):
    os.chown(tree.server_files[1], 12345, -1)


def _half_written_certificate(tree, clock):
    file = tree.server_files[0]
    file.write_bytes(file.read_bytes()[:200])


def _half_written_key(tree, clock):
    file = tree.server_files[1]
    file.write_bytes(file.read_bytes()[:50])


def _new_key_with_the_old_certificate(tree, clock):
    key = ec.generate_private_key(ec.SECP256R1())
    tree.server_files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _certificate_gone(tree, clock):
    tree.server_files[0].unlink()


def _links_of_another_tree(tree, clock):
    file = tree.server_files[0]
    leaf = x509.load_pem_x509_certificates(file.read_bytes())[0]
    file.write_bytes(leaf.public_bytes(Encoding.PEM) + tree.certificate(Tier.AK).public_bytes(Encoding.PEM))


def _expired(tree, clock):
    os.utime(tree.server_files[0])
    clock.pass_by(days=91)


def _clock_far_back(tree, clock):
    os.utime(tree.server_files[0])
    clock.step(days=-400)


def _for_clients_only(tree, clock):
    key = tree.issuer(Tier.DEVID).signer.private_key()
    issuer = tree.certificate(Tier.DEVID)
    private = ec.generate_private_key(ec.SECP256R1())
    request = DeviceRequest(
        Kind.LDEVID, "node", "SN", TpmIdentity("IBM", "", "", b"", b"\1"), private.public_key(),
        clock.now() - BACKDATED, clock.now() + timedelta(days=1), 7, "http://x",
    )  # fmt: skip
    made = device_builder(request, issuer).sign(key, SHA256())
    certificate, key_file = tree.server_files
    certificate.write_bytes(made.public_bytes(Encoding.PEM) + issuer.public_bytes(Encoding.PEM))
    key_file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


HARMS = {
    _another_mode: "mode 0640 lets others read it",
    _another_owner: "owned by user 12345",
    _half_written_certificate: "half-written",
    _half_written_key: "not a PEM private key",
    _new_key_with_the_old_certificate: "is not the key of",
    _certificate_gone: "No such file",
    _links_of_another_tree: "is not signed by the certificate after it",
    _expired: "ended on 2026-05-30",
    _clock_far_back: "this host's clock says 2025-01-25",
    _for_clients_only: "do not serve a TLS connection",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another owner is made by root only")
@pytest.mark.parametrize(("harm", "words"), HARMS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_set_that_cannot_serve_is_refused_in_words_and_the_one_before_stays_in_force(own, tree, clock, harm, words):
    before = served(own)
    harm(tree, clock)

    assert not own.look()

    assert served(own) == before
    assert words in own.problem
    with pytest.raises(TlsFilesError, match=words):
        FollowedTls(*tree.server_files, clock.now)


def test_a_set_that_was_mended_is_taken(own, tree, clock):
    tree.server_files[1].chmod(0o644)
    own.look()
    assert own.problem
    tree.server_files[1].chmod(0o600)

    assert own.look()
    assert own.problem == ""


def test_a_certificate_that_ends_while_it_serves_is_told(own, clock):
    clock.pass_by(days=91)

    assert "ended on 2026-05-30" in own.problem


def test_fleetds_own_certificate_is_renewed_at_two_thirds_of_its_life(own, tree, clock):
    clock.pass_by(days=59)
    assert not renew(tree, clock)
    clock.pass_by(days=2)

    assert renew(tree, clock)


def test_a_certificate_of_a_time_when_the_clock_was_ahead_is_made_anew(tree, clock):
    clock.step(days=300)
    renew(tree, clock)
    clock.step(days=-300)

    assert renew(tree, clock)
    assert FollowedTls(*tree.server_files, clock.now).problem == ""


@pytest.mark.parametrize(("jump", "year"), [({"days": 365 * 6}, "2032"), ({"days": -365}, "2025")])
def test_an_authority_out_of_date_by_this_hosts_clock_renews_nothing(own, tree, clock, jump, year):
    before = on_disk(tree)
    clock.step(**jump)
    (tree.server_files[0]).touch()

    with pytest.raises(TreeError, match=f"server is in force from 2026.* this host's clock says {year}"):
        keep_server_certificate(tree, [*NAMES, "another.example.org"], clock.now(), SystemRandom())

    assert on_disk(tree) == before


def test_an_authority_whose_key_is_not_its_own_renews_nothing(own, tree, clock):
    before = on_disk(tree)
    (tree.directory / "server.key").write_bytes((tree.directory / "ak.key").read_bytes())
    clock.pass_by(days=61)

    with pytest.raises(TreeError, match="is not that of its certificate"):
        renew(tree, clock)

    assert on_disk(tree) == before


@pytest.mark.parametrize("file", ["tls.key", "server.key"])
def test_a_key_that_others_can_read_renews_nothing(own, tree, clock, file):
    before = on_disk(tree)
    (tree.directory / file).chmod(0o604)
    clock.pass_by(days=61)

    with pytest.raises((SecretFileError, KeyFileError), match="mode 0604"):
        renew(tree, clock)

    assert on_disk(tree) == before
