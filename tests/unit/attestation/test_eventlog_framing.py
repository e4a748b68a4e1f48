"""Framing: real-world oddities are read, and lies about lengths are refused."""

import struct

import pytest

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import MAX_LOG, LogFormat, LogTooLarge, parse_log
from fleetd.core.attestation.structures import MalformedStructure
from tests.unit.attestation.evidence import LogBuilder, a_boot, agile_event, agile_header, legacy_event

BOTH = (Bank.SHA1, Bank.SHA256)


def digests(*banks):
    sizes = {Bank.SHA1: 20, Bank.SHA256: 32, Bank.SHA384: 48}
    return {bank: bytes((7,)) * sizes[bank] for bank in banks}


def test_a_crypto_agile_log_is_read_event_by_event():
    built = LogBuilder().add(0, kinds.POST_CODE, b"POST CODE").add(7, kinds.SEPARATOR, bytes(4))

    log = parse_log(built.bytes())

    assert log.format is LogFormat.CRYPTO_AGILE
    assert log.spec_version == "2.0.0"
    assert log.banks == BOTH
    assert [(event.pcr, event.kind, log.data(event)) for event in log.events] == [
        (0, kinds.POST_CODE, b"POST CODE"),
        (7, kinds.SEPARATOR, bytes(4)),
    ]


def test_quirk_18_a_sha1_log_without_a_header_is_read():
    raw = legacy_event(0, kinds.S_CRTM_VERSION, b"1.0\0") + legacy_event(7, kinds.SEPARATOR, bytes(4))

    log = parse_log(raw)

    assert log.format is LogFormat.SHA1_LEGACY
    assert log.banks == (Bank.SHA1,)
    assert [event.pcr for event in log.events] == [0, 7]


def test_a_sha1_log_that_begins_with_a_startup_locality_is_read():
    raw = legacy_event(0, kinds.NO_ACTION, b"StartupLocality\0\x03", bytes(20)) + legacy_event(0, 1, b"x")

    assert [event.kind for event in parse_log(raw).events] == [kinds.NO_ACTION, 1]


@pytest.mark.parametrize("padding", [b"\xff" * 511, b"\x00" * 511, b"\xff" * 3, b"\x00" * 3, b"\xff" * 65536])
@pytest.mark.parametrize("form", ["agile", "legacy"])
def test_quirk_29_padding_behind_the_last_event_is_no_event(padding, form):
    raw = a_boot().bytes() if form == "agile" else legacy_event(0, 1, b"x") * 2
    count = len(parse_log(raw).events)

    log = parse_log(raw + padding)

    assert len(log.events) == count
    assert log.padding == len(padding)


def test_quirk_36_a_tail_of_zeros_does_not_parse_as_events():
    log = parse_log(LogBuilder().add(17, 0x402, b"x").bytes() + bytes(6558))

    assert [event.pcr for event in log.events] == [17]


def test_quirk_29_a_ccel_log_numbers_its_registers_from_one_and_ends_in_ones():
    built = LogBuilder((Bank.SHA384,), header_pcr=1).add(1, kinds.EFI_HANDOFF_TABLES2, b"\x08TdxTable")

    log = parse_log(built.bytes() + b"\xff" * 2063)

    assert log.format is LogFormat.CCEL
    assert log.padding == 2063


def test_quirk_37_windows_logs_have_events_for_pcr_0xffffffff():
    raw = a_boot().bytes() + agile_event(0xFFFFFFFF, kinds.NO_ACTION, digests(*BOTH), b"\x04\x00\x01\xc0AIK")

    assert parse_log(raw).events[-1].pcr == 0xFFFFFFFF


def test_quirk_36_an_event_may_lack_the_digest_of_a_declared_bank():
    raw = agile_header(BOTH) + agile_event(12, kinds.EVENT_TAG, digests(Bank.SHA256), b"os")

    assert parse_log(raw).events[0].digests == (None, digests(Bank.SHA256)[Bank.SHA256])


def test_digests_in_another_order_than_declared_are_sorted_into_their_columns():
    swapped = digests(Bank.SHA256) | digests(Bank.SHA1)
    raw = agile_header(BOTH) + agile_event(1, 1, swapped, b"x")

    assert parse_log(raw).events[0].digests == (swapped[Bank.SHA1], swapped[Bank.SHA256])


def test_vendor_information_in_the_header_is_skipped():
    log = parse_log(LogBuilder(vendor_info=b"vendor").add(0, 1, b"x").bytes())

    assert len(log.events) == 1


def test_vendor_information_beyond_its_event_is_refused():
    raw = bytearray(LogBuilder(vendor_info=b"\xde\xad\xbe\xef").bytes())
    struct.pack_into("<I", raw, 28, struct.unpack_from("<I", raw, 28)[0] - 4)

    with pytest.raises(MalformedStructure, match="vendor information"):
        parse_log(bytes(raw))


def test_a_header_with_bytes_left_over_is_refused():
    raw = bytearray(LogBuilder(vendor_info=b"ab").bytes())
    raw[32 + 28 + 8] = 1

    with pytest.raises(MalformedStructure, match="vendor information"):
        parse_log(bytes(raw))


def test_an_algorithm_that_is_not_known_here_is_skipped_by_its_declared_size():
    data = b"Spec ID Event03\0" + struct.pack("<IBBBBI", 0, 0, 2, 0, 2, 2)
    data += struct.pack("<HHHH", 0x00FE, 24, 0x000B, 32) + b"\0"
    header = struct.pack("<II20sI", 0, 3, bytes(20), len(data)) + data
    event = struct.pack("<III", 4, 1, 2) + struct.pack("<H", 0xFE) + bytes(24) + struct.pack("<H", 11) + b"d" * 32
    event += struct.pack("<I", 1) + b"x"

    log = parse_log(header + event)

    assert log.banks == (Bank.SHA256,)
    assert log.events[0].digests[log.column(Bank.SHA256)] == b"d" * 32


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (struct.pack("<I", 0) + b"\0", "declares 0 algorithms"),
        (struct.pack("<I", 0xFFFFFFFF) + b"\0", "declares 4294967295 algorithms"),
        (struct.pack("<I", 17) + b"\0", "declares 17 algorithms"),
        (struct.pack("<IHH", 1, 0x000B, 20) + b"\0", "digest of 20 bytes"),
        (struct.pack("<IHH", 1, 0x0099, 0) + b"\0", "digest of 0 bytes"),
        (struct.pack("<IHH", 1, 0x0099, 200) + b"\0", "digest of 200 bytes"),
        (struct.pack("<IHHHH", 2, 0x000B, 32, 0x000B, 32) + b"\0", "twice"),
        (struct.pack("<IHH", 1, 0x000B, 32), "shorter than the algorithms"),
        (struct.pack("<IHH", 2, 0x000B, 32) + b"\0", "shorter than the algorithms"),
        (b"\0\0", "truncated"),
    ],
)
def test_a_header_that_lies_is_refused(spec, problem):
    data = b"Spec ID Event03\0" + struct.pack("<IBBBB", 0, 0, 2, 0, 2) + spec

    with pytest.raises(MalformedStructure, match=problem):
        parse_log(struct.pack("<II20sI", 0, 3, bytes(20), len(data)) + data)


@pytest.mark.parametrize("form", ["agile", "legacy"])
def test_a_log_that_is_cut_anywhere_within_an_event_is_refused(form):
    raw = LogBuilder().add(0, 1, b"0123456789").add(2, 1, b"abc").bytes()
    if form == "legacy":
        raw = legacy_event(0, 1, b"0123456789") + legacy_event(2, 1, b"abc")
    ends = [len(agile_header(BOTH)) if form == "agile" else 0, *(event.end for event in parse_log(raw).events)]

    for length in range(1, len(raw)):
        rest = raw[max((end for end in ends if end <= length), default=0) : length]
        if length >= ends[0] and not rest.strip(b"\0"):
            continue  # a whole log, or one with zeros behind it
        with pytest.raises(MalformedStructure):
            parse_log(raw[:length])


def test_an_event_size_that_lies_is_refused():
    raw = agile_header(BOTH) + agile_event(0, 1, digests(*BOTH), b"x")
    lying = raw[:-5] + struct.pack("<I", 0xFFFFFFF0) + b"x"

    with pytest.raises(MalformedStructure, match="past the end"):
        parse_log(lying)


@pytest.mark.parametrize(
    "event",
    [
        struct.pack("<III", 0, 1, 3) + bytes(200),
        struct.pack("<III", 0, 1, 0xFFFFFFFF) + bytes(200),
        agile_event(0, 1, {Bank.SHA384: bytes(48)}, b""),
        struct.pack("<IIIH20sH20sI", 0, 1, 2, 4, bytes(20), 4, bytes(20), 0),
    ],
    ids=["more digests than banks", "a count that lies", "an undeclared algorithm", "one algorithm twice"],
)
def test_an_event_with_impossible_digests_is_refused(event):
    with pytest.raises(MalformedStructure):
        parse_log(agile_header(BOTH) + event)


def test_zeros_followed_by_something_are_neither_events_nor_padding():
    with pytest.raises(MalformedStructure, match="neither an event nor padding"):
        parse_log(a_boot().bytes() + bytes(64) + b"\x01" + bytes(64))


def test_a_log_of_512_kib_is_read_and_one_byte_more_is_refused():
    raw = a_boot().bytes()
    padded = raw + b"\xff" * (MAX_LOG - len(raw))

    assert parse_log(padded).padding
    with pytest.raises(LogTooLarge):
        parse_log(padded + b"\xff")


@pytest.mark.parametrize("raw", [b"", b"x", b"\x00" * 31, b"\xff" * 31])
def test_a_few_bytes_are_no_log(raw):
    with pytest.raises(MalformedStructure, match="too few"):
        parse_log(raw)


def test_an_event_takes_at_least_16_bytes_so_steps_are_linear_in_the_input():
    header = agile_header((Bank.SHA256,))
    smallest = struct.pack("<IIII", 1, 1, 0, 0)

    log = parse_log(header + smallest * 1000)

    assert len(log.events) == 1000
    assert all(event.end - before.end == 16 for before, event in zip(log.events, log.events[1:], strict=False))
