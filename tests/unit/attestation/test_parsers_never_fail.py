"""No input makes a parser raise anything but its own refusal, and steps stay linear in the input."""

import struct
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetd.core.attestation.attest import (
    parse_attest,
    parse_certify_info,
    parse_quote_info,
    parse_signature,
)
from fleetd.core.attestation.banks import SIZE, Bank, PcrSelection, reset_value
from fleetd.core.attestation.eventlog.device_path import image_source
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import assume_log, judge_log, replay_all
from fleetd.core.attestation.eventlog.variables import authority_of, parse_signatures, parse_variable
from fleetd.core.attestation.eventlog.views import view_event
from fleetd.core.attestation.judgement import judge_check, judge_install
from fleetd.core.attestation.policy import AllowRule, CheckPolicy, InstallBoot, InstallPolicy, SecureBoot
from fleetd.core.attestation.quote import RawCertify, RawQuote, verify_certify, verify_quote
from fleetd.core.attestation.structures import MalformedStructure, parse_public
from tests.unit.attestation.evidence import (
    GLOBAL,
    SECURITY,
    SHA256_LIST,
    LogBuilder,
    QuoteParts,
    a_boot,
    agile_header,
    certificate_like,
    certify,
    ecc_key,
    ldevid_key,
    load_event,
    signature_list,
    variable,
)

BOUNDED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

KEY, OTHER = ecc_key(), ldevid_key()
SELECTION = PcrSelection.of(Bank.SHA256, 0, 7)
PCRS = {Bank.SHA256: {pcr: bytes(32) for pcr in range(24)}}
QUOTE, SIGNATURE = QuoteParts(KEY, PCRS, SELECTION).signed()
CERTIFY, CERTIFY_SIGNATURE = certify(KEY, OTHER.public, bytes(32))
LOG = a_boot(certificate=certificate_like(b"x")).bytes()


@st.composite
def damaged(draw, good: bytes):
    """Good bytes with a few of them overwritten, cut out, doubled or put in."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["set", "cut", "insert", "double", "lie"])):
            case "set" if data:
                data[at] = draw(st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 40))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=40))
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 200))]
            case "lie" if len(data) >= 4:
                at = min(at, len(data) - 4)
                value = draw(st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data)]))
                struct.pack_into(draw(st.sampled_from("<>")) + "I", data, at, value)
    return bytes(data)


def anything(good: bytes):
    return st.one_of(st.binary(max_size=400), damaged(good))


def refusing(parse, data):
    try:
        return parse(data)
    except MalformedStructure:
        return None


@BOUNDED
@given(anything(QUOTE))
def test_an_attestation(data):
    attest = refusing(parse_attest, data)
    if attest is not None:
        refusing(parse_quote_info, attest.body)
        refusing(parse_certify_info, attest.body)
    refusing(parse_quote_info, data)
    refusing(parse_certify_info, data)


@BOUNDED
@given(anything(SIGNATURE))
def test_a_signature(data):
    refusing(parse_signature, data)


@BOUNDED
@given(anything(KEY.public.raw))
def test_a_public_area(data):
    area = refusing(parse_public, data)
    if area is not None:
        area.name()
        refusing(lambda _: area.to_public_key(), data)


@BOUNDED
@given(anything(QUOTE), anything(SIGNATURE), st.binary(max_size=40))
def test_a_quote_is_verified_or_refused(raw, signature, nonce):
    verdict = verify_quote(RawQuote(raw), signature, KEY.public, nonce, SELECTION, PCRS)

    if not isinstance(verdict, tuple):
        assert (raw, nonce) == (QUOTE, bytes(32))


@BOUNDED
@given(anything(CERTIFY), anything(CERTIFY_SIGNATURE))
def test_a_certification_is_verified_or_refused(raw, signature):
    verdict = verify_certify(RawCertify(raw), signature, KEY.public, bytes(32), OTHER.public)

    if not isinstance(verdict, tuple):
        assert raw == CERTIFY


@BOUNDED
@given(
    st.dictionaries(st.sampled_from(Bank), st.dictionaries(st.integers(-1, 30), st.binary(max_size=64), max_size=6)),
)
def test_pcr_values_of_any_shape_are_held_against_the_quote(pcrs):
    assert isinstance(verify_quote(RawQuote(QUOTE), SIGNATURE, KEY.public, bytes(32), SELECTION, pcrs), tuple) is (
        {pcr: pcrs.get(Bank.SHA256, {}).get(pcr) for pcr in (0, 7)} != {0: bytes(32), 7: bytes(32)}
    )


def judge_everything(data):
    log = refusing(parse_log, data)
    if log is None:
        return None
    replay_all(log)
    rules = (AllowRule(digest=bytes(32)), AllowRule(authority=bytes(32)))
    for bank in log.banks:
        for judged in (
            assume_log(log, bank),
            judge_log(log, bank, {pcr: reset_value(bank, pcr) for pcr in range(24)}),
            judge_log(log, bank, replay_all(log)[bank]),
        ):
            facts = read_facts(judged)
            findings = judge_install(judged, facts, InstallPolicy(InstallBoot.JUDGED, SecureBoot.REQUIRED, rules))
            findings += judge_check(judged, facts, CheckPolicy(secure_boot=SecureBoot.REQUIRED, allow=rules))
            told = [finding.sentence() for finding in findings]
            told += [image.source or "" for image in facts.images] + [line.text or "" for line in facts.command_lines]
            told += [authority.variable for authority in facts.authorities] + [facts.firmware_version or ""]
            assert all(text.replace("\n", "").isprintable() for text in told)
        column = log.column(bank)
        for event in log.events:
            view = view_event(event, log.data(event), event.digests[column], bank)
            assert view.label.isprintable()
            assert view.detail.isprintable()
    return log


@BOUNDED
@given(anything(LOG))
def test_an_event_log(data):
    judge_everything(data)


@BOUNDED
@given(st.binary(max_size=300))
def test_an_event_log_with_a_good_header_and_anything_behind(data):
    judge_everything(agile_header((Bank.SHA256,)) + data)


@BOUNDED
@given(st.binary(max_size=300))
def test_a_legacy_event_log(data):
    judge_everything(struct.pack("<II20sI", 0, 1, bytes(20), 0) + data)


@st.composite
def odd_events(draw):
    """Whole logs of events with any PCR, type and data, half of them with digests that vouch for the data."""
    built = LogBuilder((Bank.SHA256,))
    for _ in range(draw(st.integers(1, 8))):
        data = draw(st.one_of(st.binary(max_size=80), st.sampled_from(ODD_DATA)))
        kind = draw(st.sampled_from(ODD_KINDS))
        built.add(draw(st.integers(0, 23)), kind, data, hashed=draw(st.sampled_from([None, b"other"])))
    return built.bytes()


ODD_KINDS = [0, 1, 3, 4, 5, 6, 7, 8, 0xC, 0xD, 0x80000001, 0x80000002, 0x80000003, 0x80000007, 0x80000010, 0x800000E0]
ODD_DATA = [
    variable(GLOBAL, "SecureBoot", b"\x01"),
    variable(SECURITY, "dbx", signature_list(SHA256_LIST, [bytes(32)])),
    variable(SECURITY, "db", SECURITY.bytes_le + certificate_like(b"z", 40)),
    load_event("\\a"),
    load_event("\x1b[2J\0\x07"),
    variable(SECURITY, "\x1b[2J\0", b"\x01"),
    "\x1b[2J\0x".encode("utf-16-le"),
    b"\x1b[2J\0\x07",
    b"kernel_cmdline: x",
    bytes(4),
    b"\x01\0\0\0",
]


@BOUNDED
@given(odd_events())
def test_events_of_any_type_and_content(data):
    assert judge_everything(data) is not None


@BOUNDED
@given(anything(variable(SECURITY, "dbx", signature_list(SHA256_LIST, [bytes(32)]))))
def test_a_variable(data):
    found = refusing(parse_variable, data)
    if found is not None:
        authority_of(found)
        refusing(parse_signatures, found.value)
    refusing(parse_signatures, data)


@BOUNDED
@given(anything(load_event("\\EFI\\BOOT\\BOOTX64.EFI")))
def test_a_device_path(data):
    shown = image_source(data)
    assert shown is None or len(shown) <= 4 * len(data)


def steps_of(work):
    """Lines of Python that the work executes."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    "event",
    [
        struct.pack("<IIIH32sI", 4, 1, 1, 11, bytes(32), 0),
        struct.pack("<IIII", 4, 1, 0, 0),
        struct.pack("<IIIH32sI", 7, 0x800000E0, 1, 11, bytes(32), 40)
        + variable(SECURITY, "db", b"")[:40].ljust(40, b"\0"),
        struct.pack("<IIIH32sI", 8, 0xD, 1, 11, bytes(32), 20) + b"kernel_cmdline: xxxx",
    ],
    ids=["the same event over and over", "events without digests", "authorities", "command lines"],
)
def test_judging_a_log_takes_steps_in_proportion_to_its_events(event):
    header = agile_header((Bank.SHA256,))
    small, large = (steps_of(lambda n=n: judge_everything(header + event * n)) for n in (200, 800))

    assert large <= 4.4 * small


def test_an_attestation_of_the_largest_size_takes_few_steps():
    assert steps_of(lambda: refusing(parse_attest, QUOTE + bytes(2000))) < 200


def test_every_bank_has_a_size():
    assert set(SIZE) == set(Bank)
