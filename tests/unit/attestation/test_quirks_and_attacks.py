"""Each quirk of real hardware and each attack has a test that bears its name."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]

QUIRKS = range(1, 43)
"""The numbers of the list of quirks that real hardware shows."""

ATTACKS = {
    "swapped LAK after activation": ["a_lak_swapped_after_activation_is_refused", "a_swapped_lak_is_refused"],
    "facts that contradict the declaration": [
        "another_serial_number_than_declared_is_refused_and_may_be_tried_again",
        "foreign_mac_addresses_are_refused",
        "facts_changed_on_the_way_are_refused",
    ],
    "replayed quote": [
        "a_replayed_quote_is_refused_by_its_nonce",
        "a_real_quote_is_refused_by_its_nonce_when_it_is_sent_again",
    ],
    "truncated quote": ["a_truncated_quote_is_refused", "a_quote_with_a_byte_more_is_refused_even_when_signed"],
    "re-ordered quote": ["a_quote_with_its_fields_in_another_order_is_refused"],
    "quote by an unrestricted key": [
        "an_unrestricted_key_cannot_be_the_lak",
        "a_quoting_key_that_is_not_restricted_is_refused",
        "an_unrestricted_lak_gets_no_challenge",
    ],
    "PCR values swapped with equal digest concatenation": [
        "pcr_values_swapped_with_each_other_are_refused",
        "values_with_the_same_concatenation_but_other_lengths_are_refused",
    ],
    "log with rewritten event types": [
        "a_boot_loader_with_a_rewritten_type_is_still_a_boot_loader",
        "an_authority_with_a_rewritten_type_is_still_an_authority",
        "a_boot_loader_passed_off_as_no_action_makes_its_pcr_untrusted",
        "a_secure_boot_variable_with_a_rewritten_type_only_disappears",
        "an_override_with_a_rewritten_type_is_still_refused",
    ],
    "log with events for PCRs outside the selection": ["events_of_pcrs_outside_the_quote_are_not_believed"],
    "nonce reuse": ["other_bytes_under_a_used_token_are_refused", "identical_bytes_get_the_identical_answer"],
    "parallel use of a nonce": ["attack_one_challenge_answered_many_times_at_once_counts_once"],
    "enrollment id of another machine": [
        "the_enrollment_of_another_machine_is_refused",
        "a_session_does_not_serve_for_another_run",
    ],
    "EK certificate chained to a pinned root through a non-CA": [
        "attack_an_end_entity_certificate_signs_no_ek_certificate",
        "attack_a_ca_whose_key_usage_forbids_signing_certificates_is_refused",
        "attack_a_ca_below_a_path_length_of_zero_is_refused",
    ],
    "certificate whose key differs from the public area": [
        "attack_a_certificate_of_another_key_is_refused",
        "attack_the_certificate_of_a_declared_key_beside_another_key_makes_nobody_its_machine",
    ],
    "huge chains": ["attack_many_candidates_of_one_name_cost_a_bounded_number_of_signatures"],
    "deep chains": ["attack_a_chain_that_is_too_deep_is_refused"],
    "cyclic chains": ["attack_a_chain_that_runs_in_a_circle_ends"],
    "RSA exponent 1 or 3": ["attack_a_small_rsa_exponent_is_refused"],
    "small or even moduli": ["attack_a_short_or_even_modulus_is_refused"],
    "invalid curve points": ["attack_a_point_off_its_curve_is_refused", "a_point_that_is_not_on_its_curve_is_refused"],
    "too few PCRs": [
        "too_few_pcrs_fail_the_check",
        "a_quote_over_other_pcrs_than_asked_is_refused",
        "a_real_quote_over_too_few_pcrs_is_refused",
    ],
    "the claimed UUID of another machine": [
        "the_uuid_of_a_machine_may_not_change",
        "attack_the_uuid_and_serial_of_another_machine_make_nobody_that_machine",
    ],
    "an error text that tells the expected value": [
        "no_finding_tells_the_value_that_would_have_been_accepted",
        "a_verdict_says_nothing_that_would_help_a_forger",
        "a_refusal_does_not_tell_the_value_that_would_have_been_accepted",
    ],
    "messages of another TPM": ["attack_a_message_with_a_part_of_another_tpm_s_is_refused"],
    "messages of an earlier exchange": ["attack_a_message_of_an_earlier_exchange_is_refused"],
    "answers for another TPM": ["attack_an_answer_for_another_tpm_is_of_no_use"],
}


def names():
    """The names of all tests, without the word in front."""
    found = set()
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(node.name.removeprefix("test_"))
    return found


KNOWN = names()


@pytest.mark.parametrize("quirk", QUIRKS)
def test_each_quirk_has_a_test(quirk):
    numbers = {number for name in KNOWN if (found := re.match(r"quirk((_\d+)+)_", name)) for number in numbered(found)}

    assert quirk in numbers


def numbered(found):
    return [int(number) for number in found[1].strip("_").split("_")]


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_has_its_tests(attack):
    assert [name for name in ATTACKS[attack] if name not in KNOWN] == []
