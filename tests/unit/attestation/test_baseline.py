"""Baselines: taken, stored, compared, and their differences told in an owner's words."""

import json
from dataclasses import replace

import pytest

from fleetd.core.attestation.banks import HASH, Bank
from fleetd.core.attestation.baseline import (
    MAX_REMEMBERED,
    MAX_TOLD,
    Change,
    baseline_from,
    changed_pcrs,
    compare,
    refreshed,
    take_baseline,
)
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.replay import judge_log
from tests.unit.attestation.evidence import (
    GLOBAL,
    SECURITY,
    SHA256_LIST,
    LogBuilder,
    a_boot,
    certificate_like,
    signature_list,
    variable,
)

HELD = (0, 2, 3, 7)
REPORTED = (1, 4, 5, 6, 8, 9, 12, 13, 14)
ALL = (*HELD, *REPORTED, 11)


def judged(built, **quoted):
    values = dict(built.pcrs[Bank.SHA256]) | {int(key[3:]): value for key, value in quoted.items()}
    return judge_log(parse_log(built.bytes()), Bank.SHA256, values), values


def taken(built, remembered=ALL, **quoted):
    log, values = judged(built, **quoted)
    return take_baseline(Bank.SHA256, values, remembered, log, secure_boot=True)


def difference(before, after, held=HELD, reported=REPORTED, **quoted):
    log, values = judged(after, **quoted)
    return compare(taken(before), values, log, held, reported)


def told(before, after, **options):
    return [change.sentence for change in difference(before, after, **options).changes]


def test_the_same_boot_again_is_no_difference():
    found = difference(a_boot(), a_boot())

    assert (found.pcrs, found.reported, found.changes) == ((), (), ())


def test_a_baseline_survives_its_json_form():
    baseline = taken(a_boot(certificate=certificate_like(b"x")))

    assert baseline_from(json.loads(json.dumps(baseline.as_dict()))) == baseline


def test_a_grub_command_is_remembered_as_what_was_measured_of_it():
    built = a_boot().add(8, kinds.IPL, b"grub_cmd: set root=hd0\0", hashed=b"set root=hd0")

    assert [event.detail for event in taken(built).events if event.label == "GRUB command"] == ["set root=hd0"]


@pytest.mark.parametrize("damaged", [{}, {"bank": "md5"}, {"bank": "sha256", "pcrs": {"0": "zz"}, "events": []}])
def test_a_damaged_baseline_is_refused(damaged):
    with pytest.raises((ValueError, KeyError, TypeError)):
        baseline_from(damaged)


def test_an_update_of_dbx_is_told_with_the_number_of_entries():
    found = difference(a_boot(dbx=3), a_boot(dbx=15))

    assert found.pcrs == (7,)
    assert [change.sentence for change in found.changes] == [
        "Secure Boot forbidden-signatures list (dbx) updated: 12 entries added."
    ]


def test_entries_that_are_gone_are_counted_too():
    assert told(a_boot(dbx=15), a_boot(dbx=14)) == [
        "Secure Boot forbidden-signatures list (dbx) updated: 1 entry removed."
    ]


def test_a_list_that_was_empty_before_is_told():
    assert told(a_boot(dbx=0), a_boot(dbx=2)) == [
        "Secure Boot forbidden-signatures list (dbx) updated: 2 entries added."
    ]


def test_quirk_27_a_firmware_update_is_told_by_its_version():
    found = difference(a_boot(firmware="1.0"), a_boot(firmware="2.0"))

    assert found.pcrs == (0,)
    sentences = [change.sentence for change in found.changes]
    assert sentences[0] == "Firmware version changed from 1.0 to 2.0."
    assert sentences[1].startswith("Firmware code changed: digest ")


def test_secure_boot_switched_off_is_told():
    assert "Secure Boot was switched off." in told(a_boot(secure_boot=b"\x01"), a_boot(secure_boot=b"\x00"))
    assert "Secure Boot was switched on." in told(a_boot(secure_boot=b"\x00"), a_boot(secure_boot=b"\x01"))


def test_another_boot_loader_is_told_and_only_reported():
    found = difference(a_boot(b"old"), a_boot(b"new"))

    assert found.pcrs == ()
    assert found.reported == (4,)
    assert found.changes[0].sentence.startswith("Boot loader changed: digest ")
    assert "(EFI/BOOT/BOOTX64.EFI)" in found.changes[0].sentence


def test_an_added_and_a_removed_event_are_told():
    more = a_boot().add(2, kinds.EFI_BOOT_SERVICES_DRIVER, b"", hashed=b"option rom")

    assert told(a_boot(), more) == ["Driver is new."]
    assert told(more, a_boot()) == ["Driver is no longer measured."]


def test_an_event_that_only_repeats_more_often_is_told():
    once = a_boot().add(3, kinds.EFI_ACTION, b"hello")
    twice = a_boot().add(3, kinds.EFI_ACTION, b"hello").add(3, kinds.EFI_ACTION, b"hello")

    assert told(once, twice) == ["Action hello: 1 times before, 2 times now."]


def test_a_changed_setting_is_told_by_its_name():
    before = a_boot().add(1, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "Setup", b"\x00"))
    after = a_boot().add(1, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "Setup", b"\x01"))

    assert told(before, after) == ["Firmware setting Setup changed from 00 to 01."]


def test_a_new_authority_is_told():
    (sentence,) = told(a_boot(), a_boot(certificate=certificate_like(b"new")))

    assert sentence.startswith("Authority db is new (certificate ")


def test_a_change_that_the_log_does_not_explain_has_no_words():
    found = difference(a_boot(), a_boot(), pcr7=b"\x01" * 32)

    assert found.pcrs == (7,)
    assert found.changes == ()


def test_a_pcr_that_is_not_remembered_is_no_change():
    built = a_boot()
    baseline = take_baseline(Bank.SHA256, built.pcrs[Bank.SHA256], (0,), None)

    assert changed_pcrs(baseline, {0: built.pcrs[Bank.SHA256][0], 7: bytes(32)}, HELD) == ()


def test_a_pcr_that_is_no_longer_quoted_is_a_change():
    assert changed_pcrs(taken(a_boot()), {}, (0, 7)) == (0, 7)


def test_the_uki_s_part_of_pcr11_stays_the_same_while_systemd_extends_it():
    built = a_boot()
    value = built.pcrs[Bank.SHA256][11]
    for word in (b"enter-initrd", b"leave-initrd"):
        value = HASH[Bank.SHA256](value + HASH[Bank.SHA256](word).digest()).digest()

    assert difference(built, a_boot(), held=(11,), pcr11=value).pcrs == ()
    assert difference(built, a_boot(), held=(), reported=(11,), pcr11=value).reported == ()


def test_attack_a_log_of_the_old_uki_does_not_hide_another_value_of_pcr11():
    found = difference(a_boot(), a_boot(), held=(11,), pcr11=b"\x01" * 32)

    assert found.pcrs == (11,)


def test_another_uki_in_pcr11_is_a_change():
    other = a_boot().add(11, kinds.IPL, b"x")

    assert difference(a_boot(), other, held=(11,)).pcrs == (11,)


def test_pcr11_without_a_log_is_compared_as_it_is():
    built = a_boot()
    values = dict(built.pcrs[Bank.SHA256])
    baseline = taken(built)

    found = compare(baseline, values | {11: bytes(32)}, None, (11,), ())
    assert (found.pcrs, found.changes) == ((11,), ())


def test_machines_that_changed_alike_have_the_same_fingerprint():
    one = difference(a_boot(dbx=3), a_boot(dbx=15))
    other = difference(a_boot(dbx=3), a_boot(dbx=15))
    third = difference(a_boot(dbx=3), a_boot(dbx=16))

    assert one.fingerprint == other.fingerprint != third.fingerprint


def digest_of(built, label):
    """The digest of the one event of this name, as a baseline remembers it."""
    (digest,) = [event.digest for event in taken(built).events if event.label == label]
    return digest


def test_a_difference_has_a_json_form_for_netbox():
    before, after = a_boot(dbx=3), a_boot(b"new", dbx=4)

    found = difference(before, after)

    (dbx, loader) = sorted(json.loads(json.dumps(found.as_dict()))["changes"], key=lambda each: -each["pcr"])
    assert dbx == {
        "pcr": 7,
        "event": "variable dbx",
        "old": digest_of(before, "variable dbx"),
        "new": digest_of(after, "variable dbx"),
        "sentence": "Secure Boot forbidden-signatures list (dbx) updated: 1 entry added.",
    }
    assert loader["pcr"] == 4
    assert {name: value for name, value in found.as_dict().items() if name != "changes"} == {
        "pcrs": [7],
        "reported": [4],
        "fingerprint": found.fingerprint,
        "omitted": 0,
    }


def test_what_came_and_what_went_has_no_value_on_the_other_side():
    more = a_boot().add(2, kinds.EFI_BOOT_SERVICES_DRIVER, b"", hashed=b"option rom")
    digest = HASH[Bank.SHA256](b"option rom").hexdigest()

    assert difference(a_boot(), more).changes == (Change(2, "driver", "", digest, "Driver is new."),)
    assert difference(more, a_boot()).changes == (Change(2, "driver", digest, "", "Driver is no longer measured."),)


def test_what_repeats_more_often_is_told_with_how_often_it_did():
    once = a_boot().add(3, kinds.EFI_ACTION, b"hello")
    twice = a_boot().add(3, kinds.EFI_ACTION, b"hello").add(3, kinds.EFI_ACTION, b"hello")

    assert difference(once, twice).changes == (
        Change(3, "action hello", "1", "2", "Action hello: 1 times before, 2 times now."),
    )


def test_where_several_events_of_a_name_changed_the_surplus_is_new_or_gone():
    def drivers(*contents):
        built = a_boot()
        for content in contents:
            built.add(2, kinds.EFI_BOOT_SERVICES_DRIVER, b"", hashed=content)
        return built

    more = difference(drivers(b"a"), drivers(b"b", b"c")).changes
    fewer = difference(drivers(b"b", b"c"), drivers(b"a")).changes
    digests = {name: HASH[Bank.SHA256](name).hexdigest() for name in (b"a", b"b", b"c")}

    assert [(each.old, each.new) for each in more] == [(digests[b"a"], digests[b"b"]), ("", digests[b"c"])]
    assert [(each.old, each.new) for each in fewer] == [(digests[b"b"], digests[b"a"]), (digests[b"c"], "")]


def test_a_change_without_words_of_its_own_is_told_by_the_beginning_of_both_digests():
    old, new = (HASH[Bank.SHA256](content).hexdigest()[:16] for content in (b"a", b"b"))
    before, after = (a_boot().add(2, kinds.EFI_BOOT_SERVICES_DRIVER, b"", hashed=content) for content in (b"a", b"b"))

    assert told(before, after) == [f"Driver changed: digest {old}\u2026 is now {new}\u2026."]


def with_dbx(*entries, owner=GLOBAL):
    value = signature_list(SHA256_LIST, [HASH[Bank.SHA256](entry).digest() for entry in entries], owner)
    return LogBuilder().add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "dbx", value))


def test_entries_that_came_and_went_are_counted_apart():
    assert told(with_dbx(b"a", b"b"), with_dbx(b"b", b"c", b"d")) == [
        "Secure Boot forbidden-signatures list (dbx) updated: 2 entries added, 1 entry removed."
    ]


def test_a_list_in_another_form_with_the_same_entries_is_told_as_such():
    assert told(with_dbx(b"a", b"b"), with_dbx(b"b", b"a")) == [
        "Secure Boot forbidden-signatures list (dbx) updated: the same entries in another form."
    ]


def test_a_list_that_stays_without_entries_is_told_by_its_digest():
    before = LogBuilder().add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "dbx", b""))
    after = LogBuilder().add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "dbx", b""), hashed=b"other")

    (sentence,) = told(before, after)
    assert sentence.startswith("Secure Boot forbidden-signatures list (dbx) changed: digest ")


def test_an_event_that_extends_nothing_is_not_remembered_as_anybody_could_have_written_it():
    built = LogBuilder(locality=3).startup_locality(3).add(0, kinds.S_CRTM_VERSION, "1.0\0".encode("utf-16-le"))

    assert [event.label for event in taken(built).events] == ["firmware version"]


def test_a_baseline_remembers_whether_secure_boot_was_on():
    assert taken(a_boot()).secure_boot is True
    assert baseline_from(taken(a_boot()).as_dict()).secure_boot is True


def test_a_pcr_that_is_held_and_reported_is_told_once():
    found = difference(a_boot(dbx=3), a_boot(dbx=4), held=(7,), reported=(7,))

    assert (found.pcrs, found.reported) == ((7,), ())


def test_a_baseline_and_a_difference_stay_small_whatever_the_log():
    before, after = LogBuilder(), LogBuilder()
    for step in range(5000):
        before.add(8, kinds.IPL, b"a%d" % step)
        after.add(8, kinds.IPL, b"b%d" % step)

    shown = difference(before, after, held=(8,)).as_dict()

    assert len(taken(before).events) == MAX_REMEMBERED
    assert len(shown["changes"]) == MAX_TOLD
    assert shown["omitted"] == MAX_REMEMBERED - MAX_TOLD


def test_the_sentences_of_some_pcrs_can_be_picked():
    found = difference(a_boot(b"old", dbx=1), a_boot(b"new", dbx=2))

    assert len(found.sentences((7,))) == 1
    assert len(found.sentences((4,))) == 1
    assert found.sentences((1,)) == ()


def test_refreshing_keeps_what_is_held_and_renews_what_is_reported():
    old, new = taken(a_boot(b"old", dbx=1)), taken(a_boot(b"new", dbx=2))

    fresh = refreshed(old, new, HELD)

    assert fresh.pcrs[7] == old.pcrs[7] != new.pcrs[7]
    assert fresh.pcrs[4] == new.pcrs[4] != old.pcrs[4]
    assert {event for event in fresh.events if event.pcr == 7} == {event for event in old.events if event.pcr == 7}
    assert {event for event in fresh.events if event.pcr == 4} == {event for event in new.events if event.pcr == 4}


@pytest.mark.parametrize(("held", "kept"), [((0, 7), "new"), ((0, 7, 11), "old")])
def test_refreshing_keeps_the_uki_s_part_only_where_pcr_11_is_held(held, kept):
    parts = {"old": b"a" * 32, "new": b"b" * 32}
    old, new = (replace(taken(a_boot()), uki_part=parts[name]) for name in ("old", "new"))

    assert refreshed(old, new, held).uki_part == parts[kept]


def test_refreshing_takes_the_value_of_a_held_pcr_that_was_not_remembered():
    old, new = taken(a_boot(), remembered=(0,)), taken(a_boot())

    assert refreshed(old, new, (0, 7)).pcrs[7] == new.pcrs[7]


@pytest.mark.parametrize("part", [None, b"a" * 32])
def test_a_baseline_with_and_without_a_uki_s_part_survives_its_json_form(part):
    baseline = replace(taken(a_boot()), uki_part=part)

    assert baseline_from(json.loads(json.dumps(baseline.as_dict()))) == baseline


def test_comparing_is_linear_in_the_number_of_events():
    before, after = LogBuilder(), LogBuilder()
    for step in range(2000):
        before.add(8, kinds.IPL, b"grub_cmd: a%d" % step)
        after.add(8, kinds.IPL, b"grub_cmd: b%d" % step)

    assert len(difference(before, after, held=(8,)).changes) == 2000
