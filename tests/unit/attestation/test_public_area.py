"""TPMT_PUBLIC and the selection of a quote: where their bounds lie."""

import struct
from dataclasses import replace

import pytest

from fleetd.core.attestation.attest import parse_quote_info
from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.structures import (
    MAX_PUBLIC,
    Algorithm,
    MalformedStructure,
    SymmetricParameters,
    parse_public,
)
from tests.unit.attestation.evidence import ecc_key, sized
from tests.unit.attestation.maker import ecc_ek, rsa_ek, rsa_key
from tests.unit.attestation.maker import ecc_key as private_key


@pytest.mark.parametrize(
    "raw", [ecc_ek(private_key().public_key()), rsa_ek(rsa_key().public_key().public_numbers().n)], ids=["ECC", "RSA"]
)
def test_the_cipher_of_an_ek_is_read(raw):
    """TPM 2.0 Library, part 2, "TPMT_SYM_DEF_OBJECT"; EK Credential Profile 2.5, annex B: AES-128 in CFB mode."""
    assert parse_public(raw).parameters.symmetric == SymmetricParameters(Algorithm.AES, 128, Algorithm.CFB)


def test_the_longest_public_area_is_read_and_one_byte_more_is_not():
    room = MAX_PUBLIC - len(ecc_key().public.raw)

    assert len(parse_public(ecc_key(auth_policy=bytes(room)).public.raw).auth_policy) == room
    with pytest.raises(MalformedStructure):
        ecc_key(auth_policy=bytes(room + 1))


@pytest.mark.parametrize(
    "raw", [ecc_ek(private_key().public_key()), rsa_ek(rsa_key().public_key().public_numbers().n)], ids=["ECC", "RSA"]
)
def test_a_public_area_is_cut_off_nowhere(raw):
    assert parse_public(raw).raw == raw
    for length in range(len(raw)):
        with pytest.raises(MalformedStructure):
            parse_public(raw[:length])


@pytest.mark.parametrize(("bits", "usable"), [(2040, False), (2048, True), (3072, True), (4096, True), (4104, False)])
def test_an_rsa_key_has_2048_to_4096_bits(bits, usable):
    area = parse_public(rsa_ek((1 << (bits - 1)) + 1, key_bits=bits))

    if usable:
        assert area.to_public_key().key_size == bits
    else:
        with pytest.raises(MalformedStructure, match="between 2048 and 4096"):
            area.to_public_key()


@pytest.mark.parametrize("modulus", [(1 << 2047) + 2, (1 << 2047) + 4], ids=["no multiple of 3", "a multiple of 3"])
def test_attack_an_even_modulus_is_refused(modulus):
    with pytest.raises(MalformedStructure, match="even"):
        parse_public(rsa_ek(modulus)).to_public_key()


def test_attack_a_modulus_that_is_shorter_than_it_claims_is_refused():
    area = parse_public(rsa_ek((1 << 2047) + 1))

    for modulus in (b"\0" + area.unique, b"\0" + area.unique[1:], area.unique[1:]):
        with pytest.raises(MalformedStructure, match="a modulus of"):
            replace(area, unique=modulus).to_public_key()


def selected(*banks, count=None):
    """TPML_PCR_SELECTION of these algorithms and bitmaps, then a digest."""
    head = struct.pack(">I", len(banks) if count is None else count)
    return head + b"".join(struct.pack(">HB", number, len(bits)) + bits for number, bits in banks) + sized(bytes(32))


SHA256, SHA384, UNKNOWN = 0x000B, 0x000C, 0x00FF


def test_a_selection_is_read_bank_by_bank():
    info = parse_quote_info(selected((SHA256, b"\x81\0\x80"), (SHA384, b"\0\x01\0")))

    assert info.selection.banks == ((Bank.SHA256, (0, 7, 23)), (Bank.SHA384, (8,)))
    assert info.pcr_digest == bytes(32)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (selected((UNKNOWN, b"\x01\0\0")), "unknown or repeated bank 0x00ff"),
        (selected((SHA256, b"\x01\0\0"), (UNKNOWN, b"\x01\0\0")), "unknown or repeated bank 0x00ff"),
        (selected((SHA256, b"\x01\0\0"), (SHA256, b"\x02\0\0")), "unknown or repeated bank 0x000b"),
        (selected((SHA256, b"\x01\0\0\x01")), "PCR above 23"),
        (selected((SHA256, b"\x01\0\0"), count=2), "unknown or repeated bank 0x0020"),
        (selected((SHA256, b"\x01\0\0"), count=0xFFFFFFFF), "unknown or repeated bank 0x0020"),
    ],
    ids=["unknown", "unknown after a known one", "twice", "PCR 24", "fewer than it says", "four milliards"],
)
def test_a_selection_that_is_not_understood_is_refused(body, problem):
    with pytest.raises(MalformedStructure, match=problem):
        parse_quote_info(body)


def test_a_selection_is_cut_off_nowhere():
    body = selected((SHA256, b"\x01\0\0"), (SHA384, b"\x01\0\0"))

    for length in range(len(body)):
        with pytest.raises(MalformedStructure):
            parse_quote_info(body[:length])
