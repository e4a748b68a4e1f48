"""The LDevID's files: the key as OpenSSL's tpm2 provider reads it, and the chain above the LDevID alone."""

import base64
import datetime as dt
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fleet_machine.seed.devid import own_chain, tss_private_key
from fleet_machine.seed.state import Certificates


def fields(pem):
    lines = pem.decode().splitlines()
    assert (lines[0], lines[-1]) == ("-----BEGIN TSS2 PRIVATE KEY-----", "-----END TSS2 PRIVATE KEY-----")
    assert max(map(len, lines)) <= 64
    done = subprocess.run(
        ["openssl", "asn1parse", "-inform", "DER"],
        input=base64.b64decode("".join(lines[1:-1])), capture_output=True, check=True,
    )  # fmt: skip
    return [line.split(": ", 1)[1].strip() for line in done.stdout.decode().splitlines()]


def test_a_tss_key_names_its_type_its_parent_and_both_halves():
    made = fields(tss_private_key(b"\x00\x23public", b"private" * 30))

    assert made[0] == "SEQUENCE"
    assert made[1] == "OBJECT            :2.23.133.10.1.3"
    assert "BOOLEAN           :255" in made[3]
    assert made[4] == "INTEGER           :40000001"
    assert made[5].endswith((b"\x00\x08" + b"\x00\x23public").hex().upper())
    assert (b"\x00\xd2" + b"private" * 30).hex().upper() in made[6]


def certificate(name, issuer):
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer)]
    built = x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1]).public_key(key.public_key())
    now = dt.datetime.now(dt.UTC)
    built = built.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1))
    return built.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def test_a_chain_holds_the_authorities_above_the_ldevid_in_order_and_no_other():
    root, devid, ak = certificate("root", "root"), certificate("devid", "root"), certificate("ak", "root")
    leaf = certificate("node", "devid")

    assert own_chain(Certificates(leaf, "", (ak, root, devid))) == (devid, root)
    assert own_chain(Certificates(leaf, "", ())) == ()
    assert own_chain(Certificates(root, "", (ak, root))) == ()
