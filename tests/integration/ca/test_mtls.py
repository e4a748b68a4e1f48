"""Mutual TLS by LDevID: OpenSSL signs with the key in the TPM, and a server that trusts the DevID authority lets it in."""

import os
import ssl
import subprocess
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fleetd.ca.revoking import FleetAuthority
from fleetd.core.certificates.profile import Tier
from fleetd.wiring import SystemClock
from tests.integration.ca.devid import issued_devid
from tests.swtpm import start_swtpm

pytestmark = pytest.mark.slow


def _provider() -> bool:
    told = subprocess.run(["openssl", "version", "-m"], capture_output=True, text=True, check=False).stdout
    return (Path(told.partition(":")[2].strip().strip('"')) / "tpm2.so").exists()


needs_provider = pytest.mark.skipif(not _provider(), reason="tpm2-openssl is not installed (Debian: tpm2-openssl)")


@pytest.fixture
def devid(sessions, tmp_path):
    with start_swtpm(tmp_path / "machine") as tpm:
        yield issued_devid(tpm, sessions, tmp_path)


def own_certificate(folder):
    """A certificate of the service's own, Ed25519.

    The tpm2 provider would check an ECDSA signature in the TPM as well, which has room for three objects only: the resource
    manager of a real one (`/dev/tpmrm0`) makes room, a bare swtpm does not.
    """
    key, now = Ed25519PrivateKey.generate(), SystemClock().now()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(minutes=1)).not_valid_after(now + timedelta(days=1))
    )
    made = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(
        key, None
    )
    file = folder / "service.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
    )
    return file


class Service:
    """A small TLS server that admits who shows a certificate of the DevID authority which is not revoked."""

    def __init__(self, devid, sessions, folder):
        tree = devid.tree
        self.authority = FleetAuthority(sessions, tree, SystemClock())
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.certificate = own_certificate(folder)
        self.context.load_cert_chain(self.certificate)
        self.context.verify_mode = ssl.CERT_REQUIRED
        # The DevID authority itself is the anchor: the root would admit certificates of the others, too.
        self.context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_CRL_CHECK_LEAF
        self.context.load_verify_locations(tree.certificate_file(Tier.DEVID, 1))
        self.folder, self.names = folder, []

    def take_list(self):
        listed = x509.load_der_x509_crl(self.authority.revocation_list("devid"))
        file = self.folder / "devid.crl.pem"
        file.write_bytes(listed.public_bytes(Encoding.PEM))
        self.context.load_verify_locations(file)

    def serve_once(self, listening):
        listening.settimeout(20)
        try:
            raw, _ = listening.accept()
            with self.context.wrap_socket(raw, server_side=True) as stream:
                self.names.append(dict(item for part in stream.getpeercert()["subject"] for item in part))
                stream.sendall(b"welcome\n")
        except (ssl.SSLError, OSError) as error:
            self.names.append(type(error).__name__)


def call(service, devid):
    """Connect as docs/how-to/mtls.md says; return what the client read."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=service.serve_once, args=(listening,))
        thread.start()
        done = subprocess.run(
            [
                "openssl", "s_client", "-provider", "default", "-provider", "tpm2",
                "-propquery", "?provider=tpm2,tpm2.digest!=yes,tpm2.cipher!=yes",
                "-connect", f"127.0.0.1:{listening.getsockname()[1]}", "-servername", "localhost",
                "-verify_return_error", "-CAfile", str(service.certificate),
                "-cert", str(devid.files / "devid.pem"), "-cert_chain", str(devid.files / "devid.pem"),
                "-key", str(devid.files / "devid.tss.pem"), "-quiet", "-ign_eof",
            ],
            env={**os.environ, "TPM2OPENSSL_TCTI": devid.tpm.tcti},
            input="", capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        thread.join()
    return done.stdout + done.stderr


@needs_provider
def test_a_machine_shows_its_ldevid_with_the_key_in_its_tpm(devid, sessions, tmp_path):
    service = Service(devid, sessions, tmp_path)
    service.take_list()

    said = call(service, devid)

    assert "welcome" in said, said
    assert service.names == [{"commonName": "node-7", "serialNumber": "SN7"}]


@needs_provider
def test_a_revoked_machine_is_turned_away(devid, sessions, tmp_path):
    service = Service(devid, sessions, tmp_path)
    service.authority.revoke(7, "keyCompromise")
    service.take_list()

    said = call(service, devid)

    assert "welcome" not in said
    assert service.names == ["SSLCertVerificationError"]


@needs_provider
def test_the_exported_key_is_worthless_in_another_tpm(devid, sessions, tmp_path):
    service = Service(devid, sessions, tmp_path)
    service.take_list()
    with start_swtpm(tmp_path / "another", certificates=False) as another:
        devid.tpm = another
        said = call(service, devid)

    assert "welcome" not in said
    assert "node-7" not in str(service.names)
