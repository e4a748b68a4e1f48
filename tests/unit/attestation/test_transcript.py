"""The bytes of the protocol are what the vectors say."""

import hashlib
import json
import struct
from pathlib import Path

from fleetd.core.attestation.transcript import EnrollmentClaims, Label, extra_data, lak_unique, lp, lp_list
from tests.vectors.__main__ import RUN, exchange

VECTORS = Path(__file__).parents[2] / "vectors" / "exchange.json"


def test_the_protocol_still_makes_the_bytes_of_the_vectors():
    assert exchange() == json.loads(VECTORS.read_text())


def test_a_value_stands_behind_its_length():
    assert lp(b"ab") == b"\x00\x00\x00\x02ab"
    assert lp_list([b"a", b""]) == b"\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00"


def test_the_transcript_is_the_hash_that_the_contract_describes():
    claims = EnrollmentClaims("tok", (b"B", b"A"), b"lak", b"pub", b"priv", b"facts", b"log")

    def field(value):
        return struct.pack(">I", len(value)) + value

    names = struct.pack(">I", 2) + field(b"A") + field(b"B")
    rest = b"".join(map(field, (b"lak", b"pub", b"priv", b"facts", hashlib.sha256(b"log").digest())))
    assert claims.transcript() == hashlib.sha256(field(b"1") + field(b"tok") + names + rest).digest()


def test_the_order_in_which_keys_are_offered_changes_nothing():
    one = EnrollmentClaims("t", (b"A", b"B"), b"", b"", b"", b"", None)
    other = EnrollmentClaims("t", (b"B", b"A"), b"", b"", b"", b"", None)

    assert one.transcript() == other.transcript()


def test_a_missing_log_is_not_an_empty_log():
    missing = EnrollmentClaims("t", (), b"", b"", b"", b"", None)
    empty = EnrollmentClaims("t", (), b"", b"", b"", b"", b"")

    assert missing.transcript() != empty.transcript()


def test_a_signature_for_one_purpose_serves_no_other():
    transcript = EnrollmentClaims("t", (), b"", b"", b"", b"", None).transcript()

    assert len({extra_data(label, b"n", transcript) for label in Label}) == len(Label)
    assert all(len(extra_data(label, b"n", transcript)) == 32 for label in Label)


def test_each_run_has_its_own_lak():
    assert lak_unique(RUN) == hashlib.sha256(lp(b"fleetd/lak-unique/1") + lp(RUN.bytes)).digest()
