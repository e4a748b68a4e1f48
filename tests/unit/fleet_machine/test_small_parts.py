"""Settings, times, folders, sample places, file names, META blocks: what is pure or nearly so."""

import base64
import datetime as dt
import random

import pytest

from fleet_machine.challenge import Challenge
from fleet_machine.client import refusal_of
from fleet_machine.clock import FleetTime, format_time, parse_time
from fleet_machine.console import printable
from fleet_machine.disk import talos_meta
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.samples import places_of
from fleet_machine.disk.volumes import VolumeError, checked_path
from fleet_machine.failure import FleetError, NotAuthenticError
from fleet_machine.runfolder import RunFolder
from fleet_machine.settings import RunSettings, checked_url, decoded
from fleet_machine.tpm import LakAlgorithm
from fleet_machine.tpm.identity import split_der

MIB = 1 << 20


class Clock:
    def __init__(self):
        self.at = 100.0

    def wall(self):
        return dt.datetime(1980, 1, 1, tzinfo=dt.UTC)

    def boot(self):
        return self.at


@pytest.mark.parametrize("url", ["", "http://host", "https://", "host", "https://host?x=1", "ftp://host"])
def test_fleetd_is_reached_by_https_only(url):
    with pytest.raises(FleetError):
        checked_url(url)


def test_a_url_loses_its_last_slash():
    assert checked_url("https://host:8443/prefix/") == "https://host:8443/prefix"


@pytest.mark.parametrize("value", ["", "not base64!", "é"])
def test_a_variable_that_is_no_base64_is_named(value):
    with pytest.raises(FleetError, match="FLEET_CA"):
        decoded({"FLEET_CA": value}, "FLEET_CA")


@pytest.mark.parametrize("run", ["../../etc", "x", "00112233"])
def test_a_run_id_that_is_no_uuid_is_refused(run):
    with pytest.raises(FleetError):
        RunSettings.from_environment({"FLEET_RUN": run})


def test_a_run_in_hex_is_read_as_a_uuid():
    assert RunSettings.from_environment({"FLEET_RUN": "00112233445566778899aabbccddeeff"}).run.count("-") == 4


def test_fleetds_time_goes_on_from_its_last_challenge():
    clock = Clock()
    time = FleetTime(clock)
    assert time.now().year == 1980

    time.learn(parse_time("2026-01-01T00:00:00Z"))
    clock.at += 60

    assert format_time(time.now()) == "2026-01-01T00:01:00.000Z"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_time_without_offset_is_no_time(text):
    with pytest.raises(ValueError):
        parse_time(text)


def test_counters_and_event_numbers_only_grow(tmp_path):
    folder = RunFolder(tmp_path / "run")

    assert [folder.next_counter() for _ in range(3)] == [1, 2, 3]
    assert [folder.next_seq(milliseconds) for milliseconds in (1000, 1000, 5)] == [1000, 1001, 1002]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"enrollment": "x"}'])
def test_a_damaged_session_counts_as_none(tmp_path, content):
    (tmp_path / "session.json").write_bytes(content)

    assert RunFolder(tmp_path).session() is None


@pytest.mark.parametrize("size", [MIB, 5 * MIB, 100 * MIB, 12_345_678 * 512, 10**13 // 512 * 512])
def test_samples_cover_both_ends_and_stay_on_the_disk(size):
    places = places_of(size, random.Random(1))

    assert places[0].offset == 0
    assert max(place.offset + place.length for place in places) == size
    assert all(place.offset >= 0 and place.offset + place.length <= size for place in places)
    if size > 6 * MIB:
        assert len(places) >= 1024 + 2
        assert {place.length for place in places[:2]} == {MIB}


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a b", "a\nb", "a;b", "é", "a/./b/.."])
def test_a_file_name_that_could_lead_elsewhere_is_refused(path):
    with pytest.raises(VolumeError):
        checked_path(path)


def test_progress_is_told_every_two_seconds_at_most():
    clock, told = Clock(), []
    pace = Pace(clock, lambda percent, _sentence: told.append(percent))

    for done in range(100):
        pace.report(done, 100, "")
        clock.at += 0.5

    assert told == [float(done) for done in range(0, 100, 4)]


def test_a_meta_block_is_read_as_it_was_written():
    tags = {10: b"network", 11: b"code", 16: b""}

    assert talos_meta.decode(talos_meta.encode(tags)) == tags


def test_a_code_is_put_beside_what_meta_holds_even_when_its_first_block_is_damaged():
    good = talos_meta.encode({10: b"network"})
    damaged = bytes(talos_meta.BLOCK)

    written = talos_meta.with_code(damaged + good, "code")
    assert talos_meta.decode(written[: talos_meta.BLOCK]) == {10: b"network", 11: b"code"}
    assert written[: talos_meta.BLOCK] == written[talos_meta.BLOCK :]


@pytest.mark.parametrize("at", [0, 100, talos_meta.BLOCK - 40, talos_meta.BLOCK - 1])
def test_a_meta_block_with_a_changed_byte_is_no_block(at):
    block = bytearray(talos_meta.encode({11: b"code" * 100}))
    block[at] ^= 1

    assert talos_meta.decode(bytes(block)) is None


def test_values_that_do_not_fit_into_meta_are_refused():
    with pytest.raises(FleetError):
        talos_meta.encode({10: bytes(talos_meta.BLOCK)})


@pytest.mark.parametrize(
    "stored", [b"", b"\x30", b"\x30\x85\1\1\1\1\1", b"\x30\x82\xff\xff", b"\xff" * 100, bytes(100)]
)
def test_what_is_no_certificate_ends_the_chain(stored):
    assert split_der(stored) == ()


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("p-256", LakAlgorithm.P256),
        ("ecc_nist_p384", LakAlgorithm.P384),
        ("rsa-2048", LakAlgorithm.RSA2048),
        ("", None),
        ("sm2", None),
    ],
)
def test_a_lak_algorithm_is_known_by_any_usual_name(name, algorithm):
    assert LakAlgorithm.named(name) is algorithm


@pytest.mark.parametrize("body", [None, [], "x", {}, {"findings": [1]}, {"type": "about:blank"}])
def test_a_refusal_in_an_odd_form_is_still_a_refusal(body):
    refusal = refusal_of(400, body, None)

    assert refusal.status == 400
    assert str(refusal)


def test_a_refusal_tells_its_kind_and_findings():
    body = {
        "type": "https://x/problems/token-used",
        "detail": "used",
        "stop": True,
        "findings": [{"code": "a", "message": "m"}],
    }
    refusal = refusal_of(409, body, 5.0)

    assert (refusal.kind, refusal.stop, refusal.retry_after) == ("token-used", True, 5.0)
    assert refusal.findings[0].line() == "a: m"


def test_nothing_steers_the_owners_terminal():
    assert "\x1b" not in printable("\x1b[2J\x07" + "x" * 5000)
    assert len(printable("x" * 5000)) == 2000


@pytest.mark.parametrize("missing", ["challenge", "token", "nonce", "pcrs", "issued", "expires"])
def test_a_challenge_that_lacks_a_field_is_refused(missing):
    payload = {
        "challenge": "id", "token": "t", "nonce": base64.b64encode(bytes(32)).decode(),
        "pcrs": {"bank": "sha256", "select": [7, 0, 7]}, "issued": "2026-01-01T00:00:00Z",
        "expires": "2026-01-01T00:05:00Z", "send_log": False,
    }  # fmt: skip
    assert Challenge.from_payload(payload).select == (0, 7)
    del payload[missing]

    with pytest.raises(NotAuthenticError):
        Challenge.from_payload(payload)
