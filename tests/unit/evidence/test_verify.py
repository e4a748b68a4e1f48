"""Records checked offline: what fleetd signed holds, and nothing else does."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as some

from fleetd.core.declaration import Disk
from fleetd.core.evidence.page import page
from fleetd.core.evidence.records import (
    ERASE,
    RETIREMENT,
    Witness,
    erase_record,
    erased_disks,
    retirement_record,
    told_digest,
)
from fleetd.core.evidence.verify import NotGenuineError, UnreadableError, keys_of, records_in, verified
from fleetd.core.lifecycle.states import Erasing
from fleetd.core.lifecycle.table import NOW, quiet, sample_state
from fleetd.core.names import DiskSerial, IntentKind
from tests.worlds import speaking

SPEAKER = speaking(Ed25519PrivateKey.generate())
KEYS = keys_of(SPEAKER.jwks())
RUN = quiet(IntentKind.WIPE, sample_state(Erasing))[0]
TOLD = {"serial": "D1 ", "model": "Sample", "size": 10, "method": "overwrite", "depth": "deep", "result": "erased"}
JUDGED = Witness("e1", "judged", ())


def a_record(**changes: object) -> str:
    ((_, told),) = erased_disks(RUN, {"disks": [TOLD | changes]})
    return SPEAKER.sign(ERASE, erase_record(RUN, told, JUDGED, NOW))


def part(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_record_that_fleetd_signed_holds_and_says_what_was_erased() -> None:
    record = verified(a_record(), KEYS)

    assert record.kind == "erase"
    assert record.payload["disk"]["serial"] == "D1 "
    assert record.payload["run"] == str(RUN.id)
    assert record.payload["requested_by"] == "anna"
    assert record.payload["witness"]["boot_judged"] is True


@given(some.integers(0, 10_000))
def test_a_record_with_one_character_changed_does_not_hold(place: int) -> None:
    jws = a_record()
    at = place % len(jws)
    other = "A" if jws[at] != "A" else "B"
    changed = jws[:at] + other + jws[at + 1 :]
    signature, before = changed.rpartition(".")[2], jws.rpartition(".")[2]
    if (
        len(signature) == len(before)
        and part(signature) == part(before)
        and changed[: -len(before)] == jws[: -len(before)]
    ):
        return  # the last character of a part holds bits that mean nothing

    with pytest.raises(NotGenuineError):
        verified(changed, KEYS)


def test_a_record_of_another_key_does_not_hold_and_the_key_is_named() -> None:
    other = keys_of(speaking(Ed25519PrivateKey.generate()).jwks())

    with pytest.raises(NotGenuineError, match="not among those given"):
        verified(a_record(), other)


def test_what_fleetd_signed_for_another_purpose_is_no_record() -> None:
    with pytest.raises(NotGenuineError, match="another purpose: fleet-leave"):
        verified(SPEAKER.sign("fleet-leave+jwt", {"version": 1, "record": "erase"}), KEYS)


def test_an_erase_signed_as_a_retirement_does_not_hold() -> None:
    with pytest.raises(NotGenuineError, match="version"):
        verified(SPEAKER.sign(RETIREMENT, {"version": 1, "record": "erase"}), KEYS)


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256"}, {"crit": ["b64"]}])
def test_another_way_to_sign_is_refused(header: dict) -> None:
    head, body, signature = a_record().split(".")
    changed = text(json.dumps(json.loads(part(head)) | header).encode())

    with pytest.raises(NotGenuineError, match="another way"):
        verified(f"{changed}.{body}.{signature}", KEYS)


@given(some.text(max_size=200))
def test_any_text_is_refused_without_a_crash(anything: str) -> None:
    with pytest.raises(NotGenuineError):
        verified(anything, KEYS)


def test_records_are_found_one_a_line_and_anywhere_in_json() -> None:
    one, two = a_record(), a_record(serial="d1")

    assert records_in(f"{one}\n{two}\n".encode()) == [one, two]
    nested = {"evidence": {"records": [{"kind": "erase", "jws": one}, {"jws": two}]}, "steps": ["jws"]}
    assert records_in(json.dumps(nested).encode()) == [one, two]


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_without_records_is_said_to_hold_none(raw: bytes) -> None:
    with pytest.raises(UnreadableError):
        records_in(raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "RSA"}]}', b'{"keys": [1]}', b"[]"])
def test_what_is_no_jwks_is_refused(raw: bytes) -> None:
    with pytest.raises(UnreadableError):
        keys_of(raw)


def test_only_disks_of_the_run_are_recorded() -> None:
    extra = replace(RUN, orders=replace(RUN.orders, extra_disks=(Disk(DiskSerial("d2")),)))
    told = {"disks": [TOLD, {"serial": "d2"}, {"serial": "d3"}, "d1", None]}

    assert [serial for serial, _ in erased_disks(RUN, told)] == ["d1"]
    assert [serial for serial, _ in erased_disks(extra, told)] == ["d1", "d2"]


JSON = some.recursive(some.none() | some.booleans() | some.floats() | some.text(), some.lists, max_leaves=5)


@given(some.dictionaries(some.sampled_from([*TOLD, "samples", "tried", "random_looking", "more"]), JSON))
def test_whatever_a_machine_tells_is_bounded_and_can_be_signed_and_shown(told: dict) -> None:
    for _, kept in erased_disks(RUN, {"disks": [told | {"serial": "d1"}]}):
        jws = SPEAKER.sign(ERASE, erase_record(RUN, kept, JUDGED, NOW))
        assert len(jws) < 20_000
        assert told_digest(kept) == told_digest(dict(kept))
        page("r", [verified(jws, KEYS)])


def test_words_of_a_machine_cannot_become_markup_on_the_page() -> None:
    evil = '<script>alert("x")</script>'
    shown = page("r", [verified(a_record(model=evil, note=evil), KEYS)])

    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


@pytest.mark.parametrize(
    ("witness", "judged"),
    [(JUDGED, True), (Witness("e", "network-trusted", ()), False), (Witness("e", "judged", ("pcr",)), False)],
)
def test_a_boot_counts_as_judged_only_where_the_policy_judges_and_nothing_was_found(
    witness: Witness, judged: bool
) -> None:
    payload = verified(SPEAKER.sign(ERASE, erase_record(RUN, {}, witness, NOW)), KEYS).payload

    assert payload["witness"]["boot_judged"] is judged


def test_a_retirement_shows_every_disk_and_every_step() -> None:
    disks = [{"name": "d1", "serial": "d1", "declared": True, "state": "erased"}, {"name": "d9", "state": "not erased"}]
    steps = [{"step": "certificates", "at": "2026", "message": "2 certificates are revoked"}]
    payload = retirement_record(replace(RUN, lost_by="bea"), disks, steps, NOW + timedelta(days=1))

    shown = page("r", [verified(SPEAKER.sign(RETIREMENT, payload), KEYS)])

    for words in ("bea declared the machine lost", "d9", "not erased", "2 certificates are revoked"):
        assert words in shown
