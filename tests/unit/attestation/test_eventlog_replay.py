"""Replay, and which PCRs and events quoted values vouch for."""

import hashlib

import pytest

from fleetd.core.attestation.banks import HASH, SIZE, Bank, reset_value
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.repeats import MAX_CANDIDATES, repeated_blocks
from fleetd.core.attestation.eventlog.replay import (
    SYSTEMD_PHASES,
    Trust,
    assume_log,
    judge_log,
    replay,
    replay_all,
    startup_value,
)
from tests.unit.attestation.evidence import LogBuilder, a_boot, agile_event, legacy_event

EVERY = (Bank.SHA1, Bank.SHA256, Bank.SHA384, Bank.SHA512, Bank.SHA3_256, Bank.SM3_256)


def judged(built, raw=None, bank=Bank.SHA256, **changes):
    quoted = dict(built.pcrs[bank]) | {int(key[3:]): value for key, value in changes.items()}
    return judge_log(parse_log(built.bytes() if raw is None else raw), bank, quoted)


def extended(bank, value, *payloads):
    for payload in payloads:
        value = HASH[bank](value + HASH[bank](payload).digest()).digest()
    return value


@pytest.mark.parametrize("bank", EVERY)
def test_a_replay_gives_what_a_tpm_holds_in_every_bank(bank):
    built = a_boot(banks=EVERY)

    values = replay(parse_log(built.bytes()), bank)

    assert values == {pcr: built.pcrs[bank][pcr] for pcr in values}
    assert set(values) == {0, 1, 2, 3, 4, 5, 6, 7, 11}


def test_all_banks_are_replayed_at_once():
    log = parse_log(a_boot(banks=EVERY).bytes())

    assert replay_all(log) == {bank: replay(log, bank) for bank in EVERY}


def test_a_bank_that_the_log_lacks_cannot_be_replayed():
    with pytest.raises(KeyError):
        replay(parse_log(a_boot().bytes()), Bank.SHA512)


def test_quirk_15_pcr0_starts_at_the_locality_of_startup():
    built = LogBuilder(locality=3).startup_locality(3).add(0, kinds.POST_CODE, b"x")

    log = parse_log(built.bytes())

    assert startup_value(log, Bank.SHA256) == bytes(31) + b"\x03"
    assert replay(log, Bank.SHA256)[0] == built.pcrs[Bank.SHA256][0]


def test_quirk_36_after_an_hcrtm_event_pcr0_starts_at_four():
    built = LogBuilder(locality=4).add(0, kinds.EFI_HCRTM_EVENT, b"HCRTM").add(0, kinds.POST_CODE, b"x")

    assert replay(parse_log(built.bytes()), Bank.SHA256)[0] == built.pcrs[Bank.SHA256][0]


def test_quirk_42_no_action_events_extend_nothing_wherever_they_stand():
    built = a_boot()
    before = replay(parse_log(built.bytes()), Bank.SHA256)
    built.add(0, kinds.NO_ACTION, b"SP800-155 Event3").startup_locality(3)

    assert replay(parse_log(built.bytes()), Bank.SHA256) == before


def test_a_startup_locality_after_the_first_extension_does_not_count():
    built = LogBuilder().add(0, kinds.POST_CODE, b"x").startup_locality(3)

    assert startup_value(parse_log(built.bytes()), Bank.SHA256) == bytes(32)


def test_a_tpm_started_at_locality_3_is_explained_even_when_firmware_did_not_log_it():
    built = LogBuilder(locality=3).add(0, kinds.POST_CODE, b"x")

    assert judged(built).trust[0] is Trust.EXPLAINED


def test_a_locality_that_a_log_invents_explains_nothing():
    built = LogBuilder(locality=0).startup_locality(77).add(0, kinds.POST_CODE, b"x")

    assert judged(built).trust[0] is Trust.EXPLAINED
    assert judged(built, pcr0=extended(Bank.SHA256, bytes(31) + b"\x05", b"x")).trust[0] is Trust.UNEXPLAINED


def test_pcrs_17_to_22_start_at_ones():
    assert [reset_value(Bank.SHA1, pcr)[0] for pcr in (16, 17, 22, 23)] == [0, 0xFF, 0xFF, 0]


def test_quirk_36_an_event_without_a_digest_of_the_bank_was_not_extended_into_it():
    built = a_boot()
    raw = built.bytes() + agile_event(12, kinds.EVENT_TAG, {Bank.SHA256: b"d" * 32}, b"os")

    values = replay_all(parse_log(raw))

    assert 12 in values[Bank.SHA256]
    assert 12 not in values[Bank.SHA1]


def test_quirk_37_an_event_for_an_impossible_pcr_extends_nothing():
    built = a_boot()
    raw = built.bytes() + agile_event(0xFFFFFFFF, kinds.EVENT_TAG, {Bank.SHA1: bytes(20), Bank.SHA256: bytes(32)}, b"x")

    assert replay(parse_log(raw), Bank.SHA256) == replay(parse_log(built.bytes()), Bank.SHA256)


def test_every_pcr_of_an_honest_log_is_trusted():
    verdict = judged(a_boot())

    assert set(verdict.trust.values()) == {Trust.EXPLAINED, Trust.UNTOUCHED}
    assert len(verdict.events) == len(verdict.log.events)


def test_a_pcr_whose_replay_differs_is_untrusted_with_all_its_events():
    verdict = judged(a_boot(), pcr4=bytes(32))

    assert verdict.trust[4] is Trust.UNEXPLAINED
    assert not verdict.trusts(4)
    assert all(event.pcr != 4 for event in verdict.events)
    assert verdict.trusts(7)


def test_a_pcr_that_the_log_does_not_mention_is_untrusted_unless_it_is_at_reset():
    verdict = judged(a_boot(), pcr10=b"\x01" * 32)

    assert verdict.trust[10] is Trust.UNEXPLAINED
    assert verdict.trust[12] is Trust.UNTOUCHED


def test_quirk_26_an_unreproducible_pcr0_leaves_the_other_pcrs_trusted():
    verdict = judged(a_boot(), pcr0=b"\x02" * 32)

    assert [pcr for pcr in range(8) if not verdict.trusts(pcr)] == [0]


def test_events_of_pcrs_outside_the_quote_are_not_believed():
    built = a_boot()
    quoted = {pcr: built.pcrs[Bank.SHA256][pcr] for pcr in (0, 7)}

    verdict = judge_log(parse_log(built.bytes()), Bank.SHA256, quoted)

    assert verdict.trust[4] is Trust.NOT_QUOTED
    assert {event.pcr for event in verdict.events} == {0, 7}


def test_quirk_38_the_strongest_bank_is_judged_although_the_sha1_bank_of_the_tpm_differs():
    built = a_boot()
    log = parse_log(built.bytes())

    assert judge_log(log, Bank.SHA256, built.pcrs[Bank.SHA256]).trusts(4)
    assert not judge_log(log, Bank.SHA1, {4: b"\x01" * 20}).trusts(4)


def test_a_log_with_an_altered_digest_is_not_believed():
    built = a_boot()
    raw = built.bytes().replace(hashlib.sha256(b"uki").digest(), hashlib.sha256(b"rogue").digest())

    verdict = judged(built, raw)

    assert verdict.trust[4] is Trust.UNEXPLAINED


def test_a_log_with_two_events_swapped_is_not_believed():
    built = LogBuilder().add(4, 1, b"first").add(4, 1, b"second")
    built.events.reverse()

    assert judged(built).trust[4] is Trust.UNEXPLAINED


def test_a_log_with_an_event_left_out_is_not_believed():
    built = LogBuilder().add(4, 1, b"loader").add(4, 1, b"rogue", log=False)

    assert judged(built).trust[4] is Trust.UNEXPLAINED


def test_a_log_with_an_event_too_many_is_not_believed():
    built = LogBuilder().add(4, 1, b"rogue").add(4, 1, b"loader", extend=False)

    assert judged(built).trust[4] is Trust.UNEXPLAINED


@pytest.mark.parametrize("phases", range(1, len(SYSTEMD_PHASES) + 1))
@pytest.mark.parametrize("skipped", [0, 2], ids=["with an initrd", "without an initrd"])
def test_quirk_22_pcr11_is_explained_while_systemd_walks_through_its_phases(phases, skipped):
    built = a_boot()
    words = [word.encode() for word in SYSTEMD_PHASES[skipped:][:phases]]
    value = extended(Bank.SHA256, built.pcrs[Bank.SHA256][11], *words)

    assert judged(built, pcr11=value).trust[11] is Trust.EXPLAINED_BEFORE_PHASES


def test_quirk_22_pcr11_extended_with_anything_else_is_unexplained():
    built = a_boot()
    value = extended(Bank.SHA256, built.pcrs[Bank.SHA256][11], b"enter-initrd", b"rogue")

    assert judged(built, pcr11=value).trust[11] is Trust.UNEXPLAINED


def test_quirk_22_pcr9_extended_by_systemd_after_boot_is_unexplained_and_nothing_more():
    built = a_boot().add(9, kinds.EVENT_TAG, b"initrd")
    verdict = judged(built, pcr9=extended(Bank.SHA256, built.pcrs[Bank.SHA256][9], b"nvpcr"))

    assert [pcr for pcr, trust in verdict.trust.items() if trust is Trust.UNEXPLAINED] == [9]


def with_final_events_twice(built, first, last):
    again = list(built.events)
    again[last:last] = again[first:last]
    return b"".join((built.bytes()[: -len(b"".join(built.events))], *again))


def test_quirk_28_final_events_that_stand_twice_are_counted_once():
    built = a_boot()
    count = len(built.events)
    raw = with_final_events_twice(built, count - 5, count - 1)

    verdict = judged(built, raw)

    assert len(verdict.log.events) == count + 4
    assert verdict.repeated == 4
    assert set(verdict.trust.values()) == {Trust.EXPLAINED, Trust.UNTOUCHED}
    assert len(verdict.events) == count


def test_quirk_28_events_that_a_tpm_really_saw_twice_are_counted_twice():
    built = LogBuilder().add(8, kinds.IPL, b"grub_cmd: x").add(8, kinds.IPL, b"grub_cmd: x")

    verdict = judged(built)

    assert verdict.repeated == 0
    assert len(verdict.events) == 2


def test_dropping_repeats_cannot_explain_a_value_that_the_tpm_does_not_hold():
    built = LogBuilder().add(4, 1, b"a").add(4, 1, b"a")

    assert judged(built, pcr4=b"\x05" * 32).trust[4] is Trust.UNEXPLAINED


def test_so_many_repeats_are_tried_at_most():
    built = LogBuilder()
    for step in range(40):
        built.add(4, 1, bytes((step // 2,)))

    assert len(list(repeated_blocks(parse_log(built.bytes())))) <= MAX_CANDIDATES


def test_a_log_that_is_assumed_says_so():
    verdict = assume_log(parse_log(a_boot().bytes()), Bank.SHA256)

    assert verdict.assumed
    assert verdict.trusts(4)


def test_a_legacy_log_replays_into_sha1_only():
    raw = legacy_event(0, 1, b"x")

    assert replay_all(parse_log(raw)) == {Bank.SHA1: {0: extended(Bank.SHA1, bytes(SIZE[Bank.SHA1]), b"x")}}


def test_quirk_37_after_a_resume_only_the_last_log_explains_pcr12():
    cold = a_boot().add(12, kinds.EVENT_TAG, b"boot counter 1").add(12, kinds.SEPARATOR, b"WBCL")
    resumed = a_boot().add(12, kinds.EVENT_TAG, b"boot counter 2").add(12, kinds.SEPARATOR, b"WBCL")

    old, new = judged(resumed, raw=cold.bytes()), judged(resumed)

    assert [pcr for pcr, trust in old.trust.items() if trust is Trust.UNEXPLAINED] == [12]
    assert new.trusts(12)


def test_quirk_40_a_bank_that_the_log_does_not_cover_has_no_column():
    assert parse_log(a_boot().bytes()).column(Bank.SHA384) is None
