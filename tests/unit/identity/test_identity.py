import uuid

import pytest

from fleetd.core.findings.identity import (
    KeyOfOtherMachine,
    KeyRejected,
    KeysOfTwoMachines,
    KeyWithdrawn,
    SecondKeyOfMachine,
)
from fleetd.core.identity import DeclaredBinding, OfferedKey, identify
from fleetd.core.names import MachineId
from fleetd.core.smbios import contradicts_serial, contradicts_uuid, same_uuid, serial_number

A, B = OfferedKey("a" * 64), OfferedKey("b" * 64)
ONE, TWO = MachineId(1), MachineId(2)


def declared(machine, key, status="approved"):
    return DeclaredBinding(machine, key.public_hash, "", status)


def kinds(identity):
    return [type(finding) for finding in identity.findings]


def test_an_approved_key_that_nobody_has_is_the_declared_machine_and_to_be_bound():
    found = identify([A], {}, [declared(ONE, A)], {})

    assert (found.machine, found.to_bind) == (ONE, (A.public_hash,))


def test_a_bound_key_is_its_machine():
    found = identify([A], {A.public_hash: ONE}, [declared(ONE, A)], {ONE: frozenset({A.public_hash})})

    assert (found.machine, found.to_bind, found.findings) == (ONE, (), ())


def test_nobody_is_identified_without_an_approval():
    for status in ("pending", "retired"):
        assert identify([A], {}, [declared(ONE, A, status)], {}).machine is None
    assert identify([A], {}, [], {}).findings == ()


def test_a_bound_key_declared_elsewhere_contradicts():
    found = identify([A], {A.public_hash: ONE}, [declared(TWO, A)], {ONE: frozenset({A.public_hash})})

    assert (found.machine, kinds(found), found.contradicts, found.about) == (None, [KeyOfOtherMachine], True, TWO)


def test_a_second_tpm_of_a_bound_machine_contradicts():
    found = identify([B], {}, [declared(ONE, B)], {ONE: frozenset({A.public_hash})})

    assert (found.machine, kinds(found)) == (None, [SecondKeyOfMachine])


def test_another_key_of_the_same_tpm_joins_the_binding():
    found = identify(
        [A, B], {A.public_hash: ONE}, [declared(ONE, A), declared(ONE, B)], {ONE: frozenset({A.public_hash})}
    )

    assert (found.machine, found.to_bind) == (ONE, (B.public_hash,))


def test_keys_of_one_tpm_approved_for_two_machines_contradict():
    assert kinds(identify([A, B], {}, [declared(ONE, A), declared(TWO, B)], {})) == [KeysOfTwoMachines]
    assert kinds(identify([A], {}, [declared(ONE, A), declared(TWO, A)], {})) == [KeysOfTwoMachines]


def test_a_bound_key_that_is_no_longer_approved_is_withdrawn():
    found = identify([A], {A.public_hash: ONE}, [], {ONE: frozenset({A.public_hash})})

    assert (found.machine, kinds(found), found.contradicts, found.about) == (None, [KeyWithdrawn], False, ONE)


def test_keys_that_a_person_rejected_are_nobody_s_until_one_of_them_is_approved():
    found = identify([A, B], {}, [declared(ONE, A, "rejected")], {})

    assert (found.machine, kinds(found), found.about) == (None, [KeyRejected], ONE)
    assert (found.rejected, found.contradicts) == (True, False)
    assert identify([A, B], {}, [declared(ONE, A, "rejected"), declared(ONE, B)], {}).machine == ONE


def test_a_key_beside_a_rejected_one_still_waits():
    found = identify([A, B], {}, [declared(ONE, A, "rejected"), declared(ONE, B, "pending")], {})

    assert (found.machine, found.findings, found.rejected) == (None, (), False)


def test_a_bound_key_that_is_rejected_is_withdrawn():
    found = identify([A], {A.public_hash: ONE}, [declared(ONE, A, "rejected")], {ONE: frozenset({A.public_hash})})

    assert (kinds(found), found.rejected) == ([KeyWithdrawn], False)


def test_a_key_declared_by_its_certificate_is_found_by_it():
    key = OfferedKey("c" * 64, "d" * 64)
    binding = DeclaredBinding(ONE, "", "d" * 64, "approved")

    assert identify([key], {}, [binding], {}).machine == ONE
    assert identify([OfferedKey("c" * 64)], {}, [binding], {}).machine is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "0",
        "0000000000",
        "FFFFFFFF",
        "ffff-ffff",
        "None",
        "Default string",
        "To Be Filled By O.E.M.",
        "0123456789",
        "xxxxxxx",
        "........",
        "System Serial Number",
        "N/A",
    ],
)
def test_placeholders_are_no_serial_numbers(text):
    assert serial_number(text) == ""
    assert not contradicts_serial("REAL1", text)


def test_serials_compare_without_case_and_space():
    assert not contradicts_serial(" AbC1 ", "abc1")
    assert contradicts_serial("abc1", "abc2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        str(uuid.UUID(int=0)),
        "f" * 32,
        "03000200-0400-0500-0006-000700080009",
        "00020003-0004-0005-0006-000700080009",
    ],
)
def test_placeholders_are_no_uuids(text):
    assert not contradicts_uuid(str(uuid.UUID(int=5)), text)


def test_a_uuid_is_the_same_in_both_byte_orders():
    one = uuid.uuid4()
    swapped = uuid.UUID(bytes_le=one.bytes)

    assert same_uuid(one, swapped)
    assert not contradicts_uuid(str(one), str(swapped).upper())
    assert contradicts_uuid(str(one), str(uuid.uuid4()))
