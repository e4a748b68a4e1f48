"""The keys of the issuing CAs in a PKCS#11 token (SoftHSM2): made there, never to leave, and everything else as with files."""

import os
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.revoking import FleetAuthority
from fleetd.ca.rotation import Rotation
from fleetd.ca.signer import KeyFileError
from fleetd.ca.token import TokenKeys
from fleetd.ca.tree import keep_server_certificate, make_tree
from fleetd.core.certificates.profile import Tier
from fleetd.host import SystemRandom
from fleetd.ports import OutageError
from fleetd.secret_files import SecretFileError
from tests.integration.ca.conftest import an_order
from tests.integration.ca.test_rotation import serials, verified

pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed (the extra `pkcs11`)")
MODULE = next((each for each in (Path("/usr/lib/softhsm/libsofthsm2.so"),) if each.exists()), None)
pytestmark = pytest.mark.skipif(MODULE is None, reason="SoftHSM2 is not installed (Debian: softhsm2)")
URL = "https://fleetd.example.org:7443"
NAMES = ("devid", "devid-2", "ak", "ak-2", "server", "server-2", "spare")


@pytest.fixture(scope="module")
def softhsm(tmp_path_factory):
    """A token of this module: the library is loaded once a process, with the configuration that it finds then."""
    folder = tmp_path_factory.mktemp("softhsm")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\n")
    os.environ["SOFTHSM2_CONF"] = str(folder / "softhsm2.conf")
    subprocess.run(
        ["softhsm2-util", "--init-token", "--free", "--label", "fleetd", "--so-pin", "5678", "--pin", "1234"],
        check=True, capture_output=True,
    )  # fmt: skip
    pin = folder / "pin"
    pin.touch(0o600)
    pin.write_text("1234\n")
    return TokenKeys(MODULE, "fleetd", pin)


@pytest.fixture
def token(softhsm):
    yield softhsm
    softhsm.pin_file.chmod(0o600)
    for name in NAMES:
        softhsm.remove(name)


@pytest.fixture
def tree(token, tmp_path, clock):
    return make_tree(tmp_path / "ca", "Example", URL, clock.now(), SystemRandom(), token)


def test_the_tree_keeps_no_key_of_an_issuing_ca_in_a_file(tree):
    assert {file.name for file in tree.directory.glob("*.key")} == {"root.key", "service.key"}
    assert tree.complete
    for tier in (Tier.DEVID, Tier.AK, Tier.SERVER):
        tree.certificate(tier).verify_directly_issued_by(tree.certificate(Tier.ROOT))
        assert tree.issuer(tier).signer.private_key().public_key() == tree.certificate(tier).public_key()


def test_openssl_verifies_what_the_token_signed_and_refuses_what_it_revoked(tree, sessions, clock, tmp_path, issuer):
    issued = issuer.issue(an_order())
    authority = FleetAuthority(sessions, tree, clock)
    authority.revoke(7, "keyCompromise")

    assert verified(issued.certificates.ldevid, issued.certificates.chain, tree.directory / "root.pem", tmp_path, clock)
    listed = authority.revocation_list("devid")
    assert serials(listed) == {issued.ldevid_serial}
    assert x509.load_der_x509_crl(listed).is_signature_valid(tree.certificate(Tier.DEVID).public_key())
    assert keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())


def test_a_rotation_makes_its_key_in_the_token_and_destroys_the_old_one_there(tree, token, sessions, clock, issuer):
    rotation = Rotation(sessions, tree, FleetAuthority(sessions, tree, clock), clock, SystemRandom(), URL)
    issuer.issue(an_order())
    assert rotation.begin(Tier.DEVID).name == "devid-2"
    clock.pass_by(minutes=1)
    second = issuer.issue(an_order())
    issuer.installed(7, (second.ldevid_serial, second.lak_serial))
    rotation.complete(Tier.DEVID)

    assert token.exists("devid-2")
    assert not token.exists("devid")
    rotation.begin(Tier.AK)
    rotation.abort(Tier.AK)
    assert not token.exists("ak-2")


def test_a_key_does_not_leave_the_token(token):
    token.make("spare")
    key = token.signer("spare").private_key()

    with pytest.raises(NotImplementedError, match="does not leave its token"):
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(NotImplementedError, match="does not leave its token"):
        key.private_numbers()
    key.public_key().verify(key.sign(b"data", ec.ECDSA(SHA256())), b"data", ec.ECDSA(SHA256()))


def test_a_key_is_never_overwritten(token):
    token.make("spare")

    with pytest.raises(KeyFileError, match="never overwritten"):
        token.make("spare")


def test_a_token_that_cannot_be_used_is_refused_in_words_and_nothing_is_issued(tree, token, sessions, clock, tmp_path):
    def issuing(keys):
        other = type(tree)(tree.directory, keys)
        return FleetIssuer(sessions, other, clock, SystemRandom(), URL)

    wrong = tmp_path / "wrong-pin"
    wrong.touch(0o600)
    wrong.write_text("0000")
    for keys, words in (
        (TokenKeys(MODULE, "another", token.pin_file), "the token 'another' .* cannot be used"),
        (TokenKeys(MODULE, "fleetd", wrong), "cannot be used: .*Pin"),
    ):
        with pytest.raises(OutageError, match=words):
            issuing(keys).issue(an_order())
    token.remove("devid")
    with pytest.raises(OutageError, match="holds no key devid"):
        issuing(token).issue(an_order())


def test_a_token_that_goes_away_before_it_signs_is_an_outage_and_the_next_try_gets_a_certificate(
    tree, token, sessions, clock, issuer, monkeypatch
):
    order = an_order()
    real = TokenKeys.sign

    def gone(*_):
        raise KeyFileError("the token 'fleetd' cannot be used: DeviceRemoved")

    monkeypatch.setattr(TokenKeys, "sign", gone)
    with pytest.raises(OutageError, match=r"devid authority cannot issue: .*DeviceRemoved"):
        issuer.issue(order)
    monkeypatch.setattr(TokenKeys, "sign", real)

    assert issuer.issue(order)


def test_a_pin_that_others_can_read_is_refused(token):
    token.pin_file.chmod(0o644)

    with pytest.raises(SecretFileError, match="mode 0644"):
        token.exists("devid")
