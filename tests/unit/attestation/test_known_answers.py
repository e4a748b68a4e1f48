"""Bytes that must never change, held against other people's implementations and against what is written down."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.concatkdf import ConcatKDFHash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.kbkdf import KBKDFHMAC, CounterLocation, Mode

from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.credential import kdfa, kdfe, make_credential
from fleetd.core.attestation.quote import pcr_digest
from fleetd.core.attestation.structures import Curve, MalformedStructure, parse_public
from fleetd.core.attestation.transcript import Purpose as Sealed
from fleetd.core.attestation.transcript import envelope_binding
from fleetd.core.exchange.sealing import seal, ticket_hash
from fleetd.core.exchange.tokens import Challenge, Credential, PcrDemand, Purpose, open_token, seal_token
from tests.unit.attestation.maker import ecc_ek, ecc_key

KEY = bytes(range(32))
HASHES = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("bits", [128, 256, 512, 1024, 4096])
def test_kdfa_is_the_counter_mode_of_sp800_108(name, bits):
    oracle = KBKDFHMAC(
        HASHES[name], Mode.CounterMode, bits // 8, 4, 4, CounterLocation.BeforeFixed, b"LABEL", b"uv", None
    )

    assert kdfa(name, KEY, b"LABEL", b"u", b"v", bits) == oracle.derive(KEY)


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("bits", [128, 256, 512, 1024, 4096])
def test_kdfe_is_the_concatenation_of_sp800_56a(name, bits):
    oracle = ConcatKDFHash(HASHES[name], bits // 8, b"LABEL\0" + b"u" + b"v")

    assert kdfe(name, KEY, b"LABEL", b"u", b"v", bits) == oracle.derive(KEY)


class Counted:
    """All ones, and how many bytes were asked for."""

    def __init__(self):
        self.asked = []

    def bytes(self, count):
        self.asked.append(count)
        return b"\xff" * count


@pytest.mark.parametrize(
    ("curve", "order"),
    [
        (Curve.P256, 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
        (Curve.P384, int("F" * 48 + "C7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973", 16)),
    ],
)
def test_the_ephemeral_key_has_64_bits_more_than_the_order_before_it_is_reduced(curve, order):
    random, ek = Counted(), parse_public(ecc_ek(ecc_key(curve).public_key(), curve=curve))

    credential = make_credential(ek, ek.name(), bytes(32), random)

    scalar = int.from_bytes(b"\xff" * (curve.size + 8)) % (order - 1) + 1
    point = ec.derive_private_key(scalar, curve.cryptography()).public_key().public_numbers()
    assert random.asked == [curve.size + 8]
    assert credential.secret[4 : 4 + curve.size] == point.x.to_bytes(curve.size)


def test_a_pcr_digest_is_one_hash_over_all_values_in_order():
    values = {Bank.SHA256: {0: b"a" * 32, 7: b"b" * 32}, Bank.SHA1: {1: b"c" * 20}}
    selection = PcrSelection(((Bank.SHA1, (1,)), (Bank.SHA256, (0, 7))))

    assert pcr_digest(selection, values, Bank.SHA256) == hashlib.sha256(b"c" * 20 + b"a" * 32 + b"b" * 32).digest()


def test_an_envelope_is_its_nonce_and_aes_gcm_bound_to_what_it_is_for():
    enrollment, run = uuid.UUID(int=1), uuid.UUID(int=2)

    envelope = seal(KEY, b"n" * 12, b"content", Sealed.SEED, enrollment, run)

    assert envelope[:12] == b"n" * 12
    binding = envelope_binding(Sealed.SEED, enrollment, run)
    assert AESGCM(KEY).decrypt(envelope[:12], envelope[12:], binding) == b"content"
    assert seal(KEY, b"n" * 12, b"content", Sealed.SEED, enrollment, None) != envelope
    for nonce in (b"", b"n" * 11, b"n" * 13):
        with pytest.raises(ValueError, match="12 random bytes"):
            seal(KEY, nonce, b"content", Sealed.SEED, enrollment, run)


def derived(info):
    return HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(KEY)


def test_tickets_and_tokens_have_keys_of_their_own_from_the_servers_key():
    import hmac

    assert ticket_hash(KEY, "ticket") == hmac.digest(derived(b"fleetd tickets"), b"ticket", "sha256")
    token = seal_token(KEY, a_challenge(), b"n" * 12)
    from base64 import urlsafe_b64decode

    raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert AESGCM(derived(b"fleetd challenge tokens")).decrypt(raw[:12], raw[12:], b"fleetd challenge token 1")


def a_challenge(**changes):
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    values = {
        "id": uuid.UUID(int=5),
        "purpose": Purpose.CHECK,
        "nonce": b"n" * 32,
        "pcrs": PcrDemand("sha256", (0, 7)),
        "issued": now,
        "expires": now + timedelta(minutes=5),
        "send_log": False,
    }
    return Challenge(**{**values, **changes})


@pytest.mark.parametrize("length", range(6))
def test_a_token_of_any_length_is_read_back_and_has_no_padding(length):
    challenge = a_challenge(credentials=(Credential(b"k" * length, bytes(32)),), machine=10**length)
    token = seal_token(KEY, challenge, b"n" * 12)

    assert "=" not in token
    assert open_token(KEY, token, Purpose.CHECK) == challenge


def test_the_pcrs_of_a_challenge_have_the_form_of_the_machine_api():
    assert PcrDemand("sha256", (0, 7)).as_dict() == {"bank": "sha256", "select": [0, 7]}


def test_tokens_of_any_last_character_are_read_back():
    made = [
        (challenge, seal_token(KEY, challenge, bytes(11) + bytes((last,))))
        for challenge in (a_challenge(machine=10**length) for length in range(3))
        for last in range(200)
    ]

    assert {token[-1] for _, token in made} >= {"X", "A"}
    assert all(open_token(KEY, token, Purpose.CHECK) == challenge for challenge, token in made)


@pytest.mark.parametrize("bits", [128, 192, 256])
def test_a_credential_is_hidden_with_as_many_bits_as_the_ek_says(bits):
    ek = parse_public(ecc_ek(ecc_key().public_key(), bits=bits))

    assert len(make_credential(ek, ek.name(), bytes(32), Counted()).blob) == 2 + 34 + 34


@pytest.mark.parametrize("bits", [0, 64, 193, 512])
def test_a_credential_is_not_made_with_an_aes_that_does_not_exist(bits):
    ek = parse_public(ecc_ek(ecc_key().public_key(), bits=bits))

    with pytest.raises(MalformedStructure):
        make_credential(ek, ek.name(), bytes(32), Counted())
