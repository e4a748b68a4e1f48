"""The client hashes and seals exactly as fleetd does: both are held to `tests/vectors/exchange.json`."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from fleet_machine import keys, transcript
from fleet_machine.keys import Binding, Purpose
from fleet_machine.transcript import EnrollmentClaims, Label

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "vectors/exchange.json").read_text())
GIVEN, WANTED = VECTORS["given"], VECTORS["wanted"]


def raw(name: str) -> bytes:
    return bytes.fromhex(GIVEN[name])


@pytest.fixture
def claims() -> EnrollmentClaims:
    return EnrollmentClaims(
        GIVEN["token"],
        tuple(bytes.fromhex(name) for name in GIVEN["ek_names"]),
        raw("lak_public"),
        raw("ldevid_public"),
        raw("ldevid_private"),
        raw("facts"),
        raw("log"),
    )


@pytest.fixture
def secrets() -> dict[bytes, bytes]:
    return {bytes.fromhex(name): bytes.fromhex(secret) for name, secret in GIVEN["secrets"].items()}


def test_the_enrollment_transcript_is_that_of_the_vectors(claims):
    assert claims.transcript().hex() == WANTED["enrollment_transcript"]


def test_an_enrollment_without_a_log_hashes_an_empty_item(claims):
    bare = EnrollmentClaims(*(getattr(claims, name) for name in claims.__slots__[:-1]), log=None)

    assert bare.transcript().hex() == WANTED["enrollment_transcript_without_log"]


def test_the_order_in_which_endorsement_keys_are_offered_does_not_matter(claims):
    turned = EnrollmentClaims(claims.token, claims.ek_names[::-1], *(getattr(claims, n) for n in claims.__slots__[2:]))

    assert turned.transcript() == claims.transcript()


def test_the_check_transcript_takes_serials_in_lower_case_and_in_order():
    made = transcript.check_transcript(GIVEN["token"], GIVEN["serials"], raw("findings"), raw("log"))

    assert made.hex() == WANTED["check_transcript"]


def test_pins_stand_at_the_end_of_the_check_transcript_in_order_and_none_is_not_the_same_as_no_pin():
    said = GIVEN["token"], GIVEN["serials"], raw("findings"), raw("log")

    assert transcript.check_transcript(*said, GIVEN["pins"]).hex() == WANTED["check_transcript_with_pins"]
    assert transcript.check_transcript(*said, []).hex() == WANTED["check_transcript_with_no_pins"]
    assert WANTED["check_transcript_with_no_pins"] != WANTED["check_transcript"]


def test_a_check_without_log_findings_and_certificates_hashes_empty_items():
    made = transcript.check_transcript(GIVEN["token"], [], b"", None)

    assert made.hex() == WANTED["check_transcript_without_log_and_findings"]


def test_the_redeem_transcript_is_that_of_the_vectors():
    assert transcript.redeem_transcript(GIVEN["token"], GIVEN["ticket"]).hex() == WANTED["redeem_transcript"]


@pytest.mark.parametrize("label", Label)
def test_what_the_tpm_signs_depends_on_the_label(claims, label):
    made = transcript.extra_data(label, raw("nonce"), claims.transcript())

    assert made.hex() == WANTED[f"extra_data {label.value.decode()}"]


def test_the_laks_unique_comes_from_the_run_or_from_an_unknown_ek():
    assert transcript.lak_unique(UUID(GIVEN["run"])).hex() == WANTED["lak_unique_of_run"]
    assert transcript.lak_unique(bytes.fromhex(GIVEN["ek_names"][0])).hex() == WANTED["lak_unique_of_ek"]


def test_the_keys_of_an_enrollment_are_those_of_the_vectors(claims, secrets):
    assert keys.activation_proof(secrets, claims.transcript()).hex() == WANTED["activation"]
    assert keys.seal_key(secrets, claims.transcript()).hex() == WANTED["seal_key"]


def test_the_redeem_key_is_that_of_the_vectors(secrets):
    redeem = transcript.redeem_transcript(GIVEN["token"], GIVEN["ticket"])

    assert keys.redeem_key(next(iter(secrets.values())), redeem).hex() == WANTED["redeem_key"]


def test_seed_key_and_mac_of_a_call_come_from_the_session_key():
    session = keys.SessionKey(bytes.fromhex(WANTED["session_key"]))

    assert keys.seed_key(session, GIVEN["path"], GIVEN["counter"]).hex() == WANTED["seed_key"]
    assert keys.call_mac(session, "POST", GIVEN["path"], raw("body"), GIVEN["counter"]) == WANTED["call_mac"]


@pytest.mark.parametrize("purpose", Purpose)
def test_an_envelope_is_bound_to_purpose_enrollment_and_run(purpose):
    assert Binding(purpose, GIVEN["enrollment"], GIVEN["run"]).bytes().hex() == WANTED[f"binding {purpose.value}"]


def test_an_envelope_without_a_run_is_bound_to_an_empty_one():
    assert Binding(Purpose.RESULT, GIVEN["enrollment"], "").bytes().hex() == WANTED["binding without run"]


@pytest.mark.parametrize(
    "other", [Binding(Purpose.SEED, "e", "r"), Binding(Purpose.RESULT, "x", "r"), Binding(Purpose.RESULT, "e", "")]
)
def test_an_envelope_opens_only_for_what_it_was_made_for(other):
    sealed = keys.seal_envelope(bytes(32), bytes(12), b"seed", Binding(Purpose.RESULT, "e", "r"))

    assert keys.open_envelope(bytes(32), sealed, Binding(Purpose.RESULT, "e", "r")) == b"seed"
    with pytest.raises(keys.EnvelopeError):
        keys.open_envelope(bytes(32), sealed, other)


@pytest.mark.parametrize("cut", [0, 12, 27])
def test_a_truncated_envelope_is_refused(cut):
    sealed = keys.seal_envelope(bytes(32), bytes(12), b"seed", Binding(Purpose.RESULT, "e", "r"))

    with pytest.raises(keys.EnvelopeError):
        keys.open_envelope(bytes(32), sealed[:cut], Binding(Purpose.RESULT, "e", "r"))
