"""Evidence of real machines, where the folder with it is at hand: every entry gives its expected result."""

import base64
import json
from pathlib import Path

import pytest

from fleetd.core.attestation.attest import ATTEST_QUOTE, parse_attest, parse_certify_info, parse_quote_info
from fleetd.core.attestation.banks import SIZE, Bank
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import Trust, assume_log, judge_log, replay_all
from fleetd.core.attestation.quote import pcr_digest
from fleetd.core.attestation.signature import is_hmac_by
from fleetd.core.attestation.structures import MalformedStructure, parse_public

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def entries(folder):
    manifest = DATA / folder / "manifest.json"
    return json.loads(manifest.read_text())["files"] if manifest.exists() else []


LOGS = [pytest.param(entry, id=entry["name"]) for entry in entries("eventlogs")]
READABLE = [param for param in LOGS if param.values[0]["expected_verdict"] != "reject"]
QUOTES = [pytest.param(entry, id=entry["file"]) for entry in entries("quotes") if entry["attest_sha256"]]
LIVE = [
    pytest.param(entry, live, id=f"{entry['name']}-{position}")
    for entry in entries("eventlogs")
    for position, live in enumerate(entry["live_or_shipped_pcrs"])
]


def log_bytes(entry):
    return (DATA / "eventlogs" / entry["name"]).read_bytes()


@pytest.mark.parametrize("entry", LOGS)
def test_a_recorded_log_replays_as_expected(entry):
    if entry["expected_verdict"] == "reject":
        with pytest.raises(MalformedStructure):
            parse_log(log_bytes(entry))
        return

    log = parse_log(log_bytes(entry))

    values = {
        bank.value: {str(pcr): value.hex() for pcr, value in replayed.items()}
        for bank, replayed in replay_all(log).items()
        if replayed
    }
    assert values == entry["expected_pcrs"]
    assert len(log.events) + (log.spec_version is not None) == entry["event_count"]
    assert log.spec_version == entry["spec_version"]


@pytest.mark.parametrize("entry", READABLE)
def test_the_facts_of_a_recorded_log_can_be_read_in_every_bank(entry):
    log = parse_log(log_bytes(entry))

    for bank in log.banks:
        facts = read_facts(assume_log(log, bank))
        if "DMA Protection Disabled" in entry["quirks"]:
            assert facts.dma_protection_disabled


@pytest.mark.parametrize(("entry", "live"), LIVE)
def test_live_values_are_explained_where_the_manifest_says_so(entry, live):
    log = parse_log(log_bytes(entry))

    unexplained = set()
    for name, values in live["values"].items():
        bank = Bank(name)
        if log.column(bank) is None:
            continue
        judged = judge_log(log, bank, {int(pcr): bytes.fromhex(value) for pcr, value in values.items()})
        unexplained |= {f"{name}:{pcr}" for pcr, trust in judged.trust.items() if trust is Trust.UNEXPLAINED}

    logged = tuple(f"{bank}:" for bank in log.banks)
    expected = {each for each in live["mismatch"] + live["extended_but_not_in_log"] if each.startswith(logged)}
    assert unexplained == expected


@pytest.mark.parametrize("entry", QUOTES)
def test_a_recorded_attestation_is_read_field_by_field(entry):
    recorded = json.loads((DATA / "quotes" / entry["file"]).read_text())
    expected = recorded["attest"]
    raw = base64.b64decode(recorded["attest_b64"])

    attest = parse_attest(raw)

    assert f"{attest.magic:08x}" == expected["magic"]
    assert f"0x{attest.kind:04x}" == expected["type"]
    assert attest.qualified_signer.hex() == expected["qualifiedSigner"]
    assert attest.extra_data.hex() == expected["extraData"]
    assert (attest.clock.clock, attest.clock.reset_count, attest.clock.restart_count) == (
        expected["clock"],
        expected["resetCount"],
        expected["restartCount"],
    )
    assert f"{attest.firmware_version:016x}" == expected["firmwareVersion"]
    if attest.kind == ATTEST_QUOTE:
        info = parse_quote_info(attest.body)
        assert info.pcr_digest.hex() == expected["pcrDigest"]
        assert [(bank.value, list(indexes)) for bank, indexes in info.selection.banks] == [
            (bank["hash"], bank["pcrs"]) for bank in expected["pcrSelect"]
        ]
    elif attest.kind == 0x8017:
        assert parse_certify_info(attest.body).name.hex() == expected["name"]


@pytest.mark.parametrize("entry", [param for param in QUOTES if param.values[0]["has_pcrs"]])
def test_the_pcr_digest_of_a_recorded_quote_is_that_of_its_values(entry):
    recorded = json.loads((DATA / "quotes" / entry["file"]).read_text())
    info = parse_quote_info(parse_attest(base64.b64decode(recorded["attest_b64"])).body)
    values = {
        Bank(bank): {int(pcr): bytes.fromhex(value) for pcr, value in each.items()}
        for bank, each in recorded["pcrs"].items()
    }

    hashed = next(bank for bank in (Bank.SHA256, Bank.SHA384, Bank.SHA1) if SIZE[bank] == len(info.pcr_digest))
    assert pcr_digest(info.selection, values, hashed) == info.pcr_digest


@pytest.mark.skipif(not QUOTES, reason="the recorded evidence is not at hand")
@pytest.mark.parametrize("cut", [-1, 1])
def test_a_recorded_quote_with_a_byte_more_or_less_is_refused(cut):
    recorded = json.loads((DATA / "quotes" / "signal-azure.json").read_text())
    raw = base64.b64decode(recorded["attest_b64"])
    changed = raw[:-1] if cut < 0 else raw + b"\0"

    with pytest.raises(MalformedStructure):
        parse_quote_info(parse_attest(changed).body)


@pytest.mark.skipif(not QUOTES, reason="the recorded evidence is not at hand")
def test_quirk_41_a_recorded_keyed_hash_certification_is_verified():
    recorded = json.loads((DATA / "quotes" / "attestz-hmac-file.json").read_text())
    attest, signature = base64.b64decode(recorded["attest_b64"]), base64.b64decode(recorded["signature_b64"])
    key = bytes.fromhex(recorded["hmac_key_hex"])
    area = parse_public(base64.b64decode(recorded["iak_tpm2b_public_b64"])[2:])

    assert is_hmac_by(key, attest, signature)
    assert not is_hmac_by(key, attest[:-1], signature)
    assert parse_certify_info(parse_attest(attest).body).name == area.name()
