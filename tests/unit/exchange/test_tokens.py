import json
import os
import uuid
from base64 import urlsafe_b64decode
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from fleetd.core.attestation.transcript import hkdf
from fleetd.core.exchange.sealing import ticket_hash
from fleetd.core.exchange.tokens import (
    MAX_TOKEN,
    Challenge,
    Credential,
    PcrDemand,
    Purpose,
    TokenError,
    open_token,
    seal_token,
)

KEY = bytes(range(32))
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
CHALLENGE = Challenge(
    id=uuid.UUID(int=5),
    purpose=Purpose.ENROLL,
    nonce=b"n" * 32,
    pcrs=PcrDemand("sha256", (0, 7)),
    issued=NOW,
    expires=NOW + timedelta(minutes=5),
    send_log=True,
    machine=7,
    run=uuid.UUID(int=6),
    lak_name=b"\x00\x0b" + b"l" * 32,
    lak_unique=b"u" * 32,
    credentials=(Credential(b"ek", b"s" * 32),),
)


def test_a_token_says_what_it_was_made_of():
    assert open_token(KEY, seal_token(KEY, CHALLENGE, os.urandom(12)), Purpose.ENROLL) == CHALLENGE


def test_a_token_hides_its_secrets():
    token = seal_token(KEY, CHALLENGE, os.urandom(12))

    assert b"s" * 32 not in urlsafe_b64decode(token + "==")


def test_a_token_of_another_purpose_or_key_is_refused():
    token = seal_token(KEY, CHALLENGE, os.urandom(12))

    for key, purpose in ((KEY, Purpose.CHECK), (KEY, Purpose.REDEEM), (bytes(32), Purpose.ENROLL)):
        with pytest.raises(TokenError):
            open_token(key, token, purpose)


def test_a_token_spends_no_byte_on_blanks():
    raw = urlsafe_b64decode(seal_token(KEY, CHALLENGE, bytes(12)) + "==")

    key = hkdf(KEY, salt=None, info=b"fleetd challenge tokens")
    body = AESGCM(key).decrypt(raw[:12], raw[12:], b"fleetd challenge token 1")
    assert body.decode() == json.dumps(json.loads(body), separators=(",", ":"))


def a_token_of(characters):
    """A token of this length: the name of a bank fills it up."""
    raw = urlsafe_b64decode(seal_token(KEY, replace(CHALLENGE, pcrs=PcrDemand("", ())), bytes(12)) + "==")
    bank = "x" * (characters * 3 // 4 - len(raw))
    return seal_token(KEY, replace(CHALLENGE, pcrs=PcrDemand(bank, ())), bytes(12))


def test_the_longest_token_is_opened_and_a_longer_one_is_not():
    longest, longer = a_token_of(MAX_TOKEN), a_token_of(MAX_TOKEN + 2)

    assert (len(longest), len(longer)) == (MAX_TOKEN, MAX_TOKEN + 2)
    assert open_token(KEY, longest, Purpose.ENROLL).id == CHALLENGE.id
    with pytest.raises(TokenError):
        open_token(KEY, longer, Purpose.ENROLL)


@pytest.mark.parametrize("more", ["=", "==", "\n", "\u00e9", " ", "A"])
def test_a_token_with_a_character_more_is_refused(more):
    token = seal_token(KEY, CHALLENGE, bytes(12))

    for bent in (token + more, more + token):
        with pytest.raises(TokenError):
            open_token(KEY, bent, Purpose.ENROLL)


@given(st.integers(0), st.sampled_from("AZaz09-_"))
def test_no_character_of_a_token_may_change(place, character):
    token = seal_token(KEY, CHALLENGE, bytes(12))
    place %= len(token)
    bent = token[:place] + character + token[place + 1 :]

    if bent != token:
        with pytest.raises(TokenError):
            open_token(KEY, bent, Purpose.ENROLL)


@given(st.text(max_size=100) | st.binary(max_size=100).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_no_token(text):
    with pytest.raises(TokenError):
        open_token(KEY, text, Purpose.ENROLL)


def test_a_challenge_ends_when_it_expires():
    assert not CHALLENGE.expired(CHALLENGE.expires - timedelta(milliseconds=1))
    assert CHALLENGE.expired(CHALLENGE.expires)


def test_a_challenge_without_a_subject_keeps_none():
    bare = replace(CHALLENGE, machine=None, run=None, credentials=(), lak_name=b"", lak_unique=b"")

    assert open_token(KEY, seal_token(KEY, bare, os.urandom(12)), Purpose.ENROLL) == bare


def test_the_hash_of_a_ticket_depends_on_the_servers_key():
    assert ticket_hash(KEY, "t") != ticket_hash(bytes(32), "t")
