"""`fleetd inspect eventlog` and `fleetd inspect quote`: tables, JSON and exit status."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
import typer
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from fleetd.cli import inspect_log, inspect_quote
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import MAX_LOG
from tests.unit.attestation.evidence import LogBuilder, QuoteParts, a_boot, certificate_like, ecc_key, rsa_key, sized

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
NONCE = b"n" * 32


def entries(folder):
    manifest = DATA / folder / "manifest.json"
    return json.loads(manifest.read_text())["files"] if manifest.exists() else []


@pytest.fixture(scope="module")
def app():
    group = typer.Typer()
    inspect_log.add_to(group)
    inspect_quote.add_to(group)
    return group


@pytest.fixture
def run(app):
    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(a_boot(certificate=certificate_like(b"x")).bytes())
    return path


def test_a_log_is_shown_as_tables(run, log_file):
    result = run("eventlog", log_file)

    assert result.exit_code == 0
    assert "Secure Boot: on" in result.stdout
    assert "accepted" in result.stdout


def test_a_log_is_shown_as_json(run, log_file):
    shown = json.loads(run("eventlog", log_file, "--json").stdout)

    assert set(shown) >= {"format", "pcrs", "events", "secure_boot", "findings", "accepted"}
    assert shown["format"] == "crypto-agile"
    assert shown["pcrs"]["sha256"]["7"] == a_boot(certificate=certificate_like(b"x")).pcrs[Bank.SHA256][7].hex()
    assert shown["secure_boot"] is True
    assert shown["accepted"] is True
    assert shown["facts"]["boot_loaders"][0]["digest"] == hashlib.sha256(b"uki").hexdigest()
    assert shown["events"][0]["label"] == "Spec ID"


def test_each_finding_has_a_code_a_severity_and_a_message(run, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(a_boot().add(7, kinds.EFI_ACTION, b"DMA Protection Disabled").bytes())

    (finding,) = json.loads(run("eventlog", path, "--json").stdout)["findings"]

    assert (finding["code"], finding["severity"]) == ("dma-protection-disabled", "warns")
    assert finding["message"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_malformed_log_is_refused(run, tmp_path, options):
    path = tmp_path / "log"
    path.write_bytes(a_boot().bytes()[:-3])

    result = run("eventlog", path, *options)

    assert result.exit_code == 1
    if options:
        assert json.loads(result.stdout)["accepted"] is False


def other_bank(tmp_path):
    values = tmp_path / "pcrs"
    values.write_text(json.dumps({"sha512": {"0": "00" * 64}}))
    return "--pcrs", values


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        (a_boot().bytes()[:-3], None, "eventlog-malformed"),
        (bytes(MAX_LOG + 1), None, "eventlog-too-large"),
        (a_boot().bytes(), other_bank, "eventlog-bank-missing"),
        (LogBuilder().bytes(), None, "eventlog-no-firmware-events"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_to_do_next_is_not_the_command_that_was_just_given(run, tmp_path, content, options, code):
    path = tmp_path / "log"
    path.write_bytes(content)

    findings = json.loads(run("eventlog", path, *(options(tmp_path) if options else ()), "--json").stdout)["findings"]

    assert code in [finding["code"] for finding in findings]
    assert not [finding for finding in findings if "inspect eventlog" in finding["next_step"]]


@pytest.mark.parametrize("content", [None, b""])
def test_a_file_that_cannot_be_read_is_told_by_status_2(run, tmp_path, content):
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)

    assert run("eventlog", path).exit_code == 2


def test_quirk_19_a_file_that_claims_to_have_no_bytes_is_read_to_its_end(run):
    """Files of securityfs say size 0, like those of procfs."""
    assert Path("/proc/version").stat().st_size == 0

    result = run("eventlog", "/proc/version", "--json")

    assert result.exit_code == 1
    assert "cannot be read" in json.loads(result.stdout)["findings"][0]["message"]


def test_a_log_can_be_held_against_pcr_values(run, tmp_path, log_file):
    good = {
        "sha256": {str(i): v.hex() for i, v in a_boot(certificate=certificate_like(b"x")).pcrs[Bank.SHA256].items()}
    }
    values = tmp_path / "pcrs"
    values.write_text(json.dumps(good))
    assert run("eventlog", log_file, "--pcrs", values).exit_code == 0

    good["sha256"]["4"] = "00" * 32
    values.write_text(json.dumps(good))
    result = run("eventlog", log_file, "--pcrs", values, "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["trust"]["4"] == "unexplained"


def test_markup_in_an_event_is_shown_and_not_obeyed(run, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(
        a_boot().add(8, kinds.IPL, b"grub_cmd: [bold]x[/nonsense]\0", hashed=b"[bold]x[/nonsense]").bytes()
    )

    result = run("eventlog", path)

    assert result.exit_code == 0
    assert "[bold]x" in result.stdout.replace("\n", "")


@pytest.mark.parametrize("entry", [pytest.param(each, id=each["name"]) for each in entries("eventlogs")])
def test_each_recorded_log_gives_its_expected_result(run, entry):
    result = run("eventlog", DATA / "eventlogs" / entry["name"], "--json")
    shown = json.loads(result.stdout)

    if entry["expected_verdict"] != "accept-or-reject":
        assert shown["accepted"] is (entry["expected_verdict"] == "parse")
    assert result.exit_code == (0 if shown["accepted"] else 1)
    if entry["expected_verdict"] != "reject":
        assert shown["pcrs"] == entry["expected_pcrs"]
        assert len(shown["events"]) == entry["event_count"]


# --- Quotes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def quote(tmp_path):
    """A folder with a good quote, and a way to change what lies in it."""

    def write(key=None, **changes):
        key = key or ecc_key()
        pcrs = {Bank.SHA256: a_boot().pcrs[Bank.SHA256]}
        selection = PcrSelection.of(Bank.SHA256, 0, 4, 7)
        raw, signature = QuoteParts(key, pcrs, selection, NONCE).signed()
        public = key.private.public_key()
        files = {
            "attest": raw,
            "signature": signature,
            "public": key.public.raw,
            "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            "pcrs": json.dumps({"sha256": {str(i): v.hex() for i, v in pcrs[Bank.SHA256].items()}}).encode(),
            **changes,
        }
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return tmp_path

    return write


def arguments(folder, *more, public="public"):
    return [
        "quote",
        "--attest",
        folder / "attest",
        "--signature",
        folder / "signature",
        "--public",
        folder / public,
        *more,
    ]


@pytest.mark.parametrize("make", [ecc_key, rsa_key])
def test_a_good_quote_is_accepted_without_remark(run, quote, make):
    folder = quote(make())

    result = run(*arguments(folder, "--nonce", NONCE.hex(), "--pcrs", folder / "pcrs", "--json"))

    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert shown["accepted"] is True
    assert shown["findings"] == []
    assert shown["attest"]["selection"] == {"sha256": [0, 4, 7]}


def test_a_quote_is_shown_as_a_table(run, quote):
    result = run(*arguments(quote()))

    assert result.exit_code == 0
    assert "extra data" in result.stdout
    assert "accepted" in result.stdout


@pytest.mark.parametrize("form", ["pem", "der"])
def test_a_plain_public_key_will_do_and_what_it_cannot_show_is_said(run, quote, form):
    folder = quote()

    result = run(*arguments(folder, "--nonce", NONCE.hex(), "--pcrs", folder / "pcrs", "--json", public=form))

    assert result.exit_code == 0
    assert "Name" in json.loads(result.stdout)["findings"][0]["message"]


def test_structures_with_a_size_in_front_are_read(run, quote):
    key = ecc_key()
    folder = quote(key, public=sized(key.public.raw))
    raw = (folder / "attest").read_bytes()
    (folder / "attest").write_bytes(sized(raw))

    assert run(*arguments(folder)).exit_code == 0


def test_a_bare_rsa_signature_counts_as_one_with_sha256(run, quote):
    folder = quote(rsa_key())
    (folder / "signature").write_bytes((folder / "signature").read_bytes()[6:])

    assert run(*arguments(folder)).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "options", "code"),
    [
        ({}, ["--nonce", "00"], "nonce-mismatch"),
        ({"attest": b"\xff\x54\x43\x47\x80\x18"}, [], "attest-malformed"),
        ({"signature": b"\0" * 80}, [], "signature-malformed"),
    ],
)
def test_a_wrong_quote_is_refused_with_its_code(run, quote, changes, options, code):
    result = run(*arguments(quote(**changes), *options, "--json"))

    assert result.exit_code == 1
    assert code in [finding["code"] for finding in json.loads(result.stdout)["findings"]]


def test_wrong_pcr_values_are_refused(run, quote):
    values = {"sha256": {str(i): "00" * 32 for i in range(24)}}
    folder = quote(pcrs=json.dumps(values).encode())

    result = run(*arguments(folder, "--pcrs", folder / "pcrs", "--json"))

    assert result.exit_code == 1
    assert "pcr-digest" in result.stdout


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"public": b"no key"}, []),
        ({"attest": b""}, []),
        ({}, ["--nonce", "zz"]),
        ({"pcrs": b"{nonsense"}, ["--pcrs"]),
        ({"pcrs": b'{"md5": {}}'}, ["--pcrs"]),
        ({"pcrs": b"\x00\x01\x02"}, ["--pcrs"]),
    ],
)
def test_input_that_cannot_be_read_ends_with_status_2(run, quote, changes, options):
    folder = quote(**changes)
    extra = [*options, folder / "pcrs"] if options == ["--pcrs"] else options

    assert run(*arguments(folder, *extra)).exit_code == 2


def test_values_as_tpm2_pcrread_prints_them_are_read(run, quote):
    lines = ["  sha256:"] + [f"    {i} : 0x{v.hex().upper()}" for i, v in a_boot().pcrs[Bank.SHA256].items()]
    folder = quote(pcrs="\n".join(lines).encode())

    assert run(*arguments(folder, "--nonce", NONCE.hex(), "--pcrs", folder / "pcrs")).exit_code == 0


def verdict_of(entry):
    """What the manifest's words mean for a quote that stands alone."""
    return not entry["expected"].startswith(("refuse", "signature valid; refuse", "accept: HMAC"))


WITH_KEY = [each for each in entries("quotes") if each["has_ak"] or each["file"] == "attestz-hmac-file.json"]


@pytest.mark.parametrize("entry", [pytest.param(each, id=each["file"]) for each in WITH_KEY])
def test_each_recorded_quote_gives_its_expected_result(run, tmp_path, entry):
    recorded = json.loads((DATA / "quotes" / entry["file"]).read_text())
    public = next(
        (recorded[name] for name in ("ak_tpmt_public_b64", "ak_spki_b64", "iak_tpm2b_public_b64") if name in recorded),
        None,
    )
    for name, content in (
        ("attest", recorded["attest_b64"]),
        ("signature", recorded["signature_b64"]),
        ("public", public),
    ):
        (tmp_path / name).write_bytes(base64.b64decode(content))
    options = []
    if recorded.get("nonce_hex") is not None:
        options += ["--nonce", recorded["nonce_hex"]]
    if recorded.get("pcrs"):
        (tmp_path / "pcrs").write_text(json.dumps(recorded["pcrs"]))
        options += ["--pcrs", tmp_path / "pcrs"]

    result = run(*arguments(tmp_path, *options, "--json"))

    assert json.loads(result.stdout)["accepted"] is verdict_of(entry)
    assert result.exit_code == (0 if verdict_of(entry) else 1)


@pytest.mark.skipif(not entries("quotes"), reason="the recorded evidence is not at hand")
def test_values_as_tpm2_quote_writes_them_are_read(run, tmp_path):
    recorded = json.loads((DATA / "quotes" / "keylime-checkquote.json").read_text())
    names = {
        "attest": "attest_b64",
        "signature": "signature_b64",
        "public": "ak_spki_b64",
        "pcrs": "tpm2tools_pcr_file_b64",
    }
    for name, field in names.items():
        (tmp_path / name).write_bytes(base64.b64decode(recorded[field]))

    assert run(*arguments(tmp_path, "--pcrs", tmp_path / "pcrs")).exit_code == 0
    damaged = bytearray((tmp_path / "pcrs").read_bytes())
    damaged[142] ^= 1
    (tmp_path / "pcrs").write_bytes(bytes(damaged))
    assert run(*arguments(tmp_path, "--pcrs", tmp_path / "pcrs")).exit_code == 1
