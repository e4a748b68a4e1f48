"""Quotes: what is accepted, and that each way of being wrong is told by its own finding."""

import dataclasses
import hashlib
import struct

import pytest

from fleetd.core.attestation.attest import MAX_ATTEST, MAX_SIGNATURE, parse_attest, parse_signature
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.quote import (
    RawQuote,
    VerifiedQuote,
    endorsement_qualified_name,
    pcr_digest,
    verify_quote,
)
from fleetd.core.attestation.signature import WrongScheme, is_signed_by
from fleetd.core.attestation.structures import (
    Algorithm,
    Curve,
    EccParameters,
    EccPoint,
    MalformedStructure,
    parse_public,
)
from fleetd.core.findings import quote as findings
from fleetd.core.findings.quote import Attested
from tests.unit.attestation.evidence import QuoteParts, ecc_key, rsa_key, sized

SELECTION = PcrSelection.of(Bank.SHA256, 0, 4, 7)
NONCE = b"n" * 32
QUOTE = Attested.QUOTE


@pytest.fixture(scope="module")
def key():
    return ecc_key()


def pcrs(*banks):
    return {bank: {i: bytes((i + 1,)) * size for i in range(24)} for bank, size in banks or ((Bank.SHA256, 32),)}


def parts_of(key, **changes):
    fields = {"pcrs": pcrs(), "selection": SELECTION, "extra_data": NONCE, **changes}
    return QuoteParts(key, **fields)


def judged(parts, *, extra_data=NONCE, demanded=SELECTION, values=None, lak=None, signed=None):
    raw, signature = signed or parts.signed()
    return verify_quote(
        RawQuote(raw),
        signature,
        lak or parts.key.public,
        extra_data,
        demanded,
        parts.pcrs if values is None else values,
    )


@pytest.mark.parametrize(
    "make",
    [
        ecc_key,
        lambda: ecc_key(Curve.P384, hashed=Bank.SHA384),
        lambda: ecc_key(Curve.P384),
        rsa_key,
        lambda: rsa_key(Algorithm.RSAPSS),
    ],
    ids=["P-256", "P-384 with SHA-384", "P-384 with SHA-256", "RSASSA", "RSAPSS"],
)
def test_a_good_quote_of_each_algorithm_is_verified(make):
    parts = parts_of(make())

    verdict = judged(parts)

    assert isinstance(verdict, VerifiedQuote)
    assert verdict.values(Bank.SHA256) == {i: pcrs()[Bank.SHA256][i] for i in (0, 4, 7)}
    assert (verdict.clock.clock, verdict.clock.reset_count, verdict.clock.restart_count) == (1_000_000, 5, 2)
    assert verdict.clock.safe
    assert verdict.firmware_version == 0x0001000200030004


def test_values_beyond_the_selection_are_dropped(key):
    verdict = judged(parts_of(key))

    assert isinstance(verdict, VerifiedQuote)
    assert set(verdict.values(Bank.SHA256)) == {0, 4, 7}
    assert verdict.values(Bank.SHA1) == {}


def test_a_quote_over_several_banks_is_verified_in_the_order_of_its_banks(key):
    both = PcrSelection(((Bank.SHA384, (0, 1)), (Bank.SHA256, (0, 1))))
    values = pcrs((Bank.SHA256, 32), (Bank.SHA384, 48))
    asked = PcrSelection(((Bank.SHA256, (0, 1)), (Bank.SHA384, (0, 1))))

    verdict = judged(parts_of(key, pcrs=values, selection=both), demanded=asked)

    assert isinstance(verdict, VerifiedQuote)
    assert verdict.values(Bank.SHA384)[1] == values[Bank.SHA384][1]


def test_a_selection_bitmap_of_another_length_means_the_same(key):
    assert isinstance(judged(parts_of(key, selection_size=4)), VerifiedQuote)


@pytest.mark.parametrize("bit", range(0, 8 * 32, 37))
def test_a_quote_for_another_nonce_is_refused(key, bit):
    other = (int.from_bytes(NONCE) ^ 1 << bit).to_bytes(32)

    assert judged(parts_of(key, extra_data=other)) == (findings.NonceMismatch(QUOTE),)


@pytest.mark.parametrize("nonce", [b"", NONCE[:-1], NONCE + b"\0"])
def test_a_nonce_of_another_length_is_refused(key, nonce):
    assert judged(parts_of(key, extra_data=nonce)) == (findings.NonceMismatch(QUOTE),)


def test_a_structure_that_no_tpm_made_is_refused(key):
    assert judged(parts_of(key, magic=0xFF544346)) == (findings.NotMadeByTpm(QUOTE),)


@pytest.mark.parametrize("kind", [0x8017, 0x8014, 0x801A, 0x8019])
def test_an_attestation_of_another_type_is_refused_as_a_quote(key, kind):
    assert judged(parts_of(key, kind=kind)) == (findings.WrongAttestType(QUOTE, kind),)


def test_a_quote_by_a_key_outside_the_endorsement_hierarchy_is_refused(key):
    owner = (0x40000001).to_bytes(4, "big")
    signer = b"\x00\x0b" + hashlib.sha256(owner + key.public.name()).digest()

    assert judged(parts_of(key, signer=signer)) == (findings.SignerMismatch(QUOTE),)


def test_the_qualified_name_is_the_hash_of_the_endorsement_hierarchy_and_the_name(key):
    hashed = hashlib.sha256(b"\x40\x00\x00\x0b" + key.public.name()).digest()

    assert endorsement_qualified_name(key.public.name()) == b"\x00\x0b" + hashed


def test_a_quote_whose_signer_is_the_bare_name_is_refused(key):
    assert judged(parts_of(key, signer=key.public.name())) == (findings.SignerMismatch(QUOTE),)


def test_a_quote_by_another_key_is_refused(key):
    other = ecc_key()

    verdict = judged(parts_of(other), lak=key.public)

    assert verdict == (findings.SignerMismatch(QUOTE), findings.SignatureInvalid(QUOTE))


def test_a_quote_that_names_the_lak_but_is_signed_by_another_key_is_refused(key):
    other = ecc_key()
    raw = parts_of(key).attest()

    assert judged(parts_of(key), signed=(raw, other.sign(raw))) == (findings.SignatureInvalid(QUOTE),)


@pytest.mark.parametrize("selected", [(0, 4), (0, 4, 7, 8), (), (1, 4, 7)], ids=str)
def test_a_quote_over_other_pcrs_than_asked_is_refused(key, selected):
    verdict = judged(parts_of(key, selection=PcrSelection(((Bank.SHA256, selected),))))

    assert [type(finding) for finding in verdict] == [findings.SelectionMismatch]


def test_a_quote_over_no_bank_at_all_is_refused(key):
    verdict = judged(parts_of(key, selection=PcrSelection(())))

    assert verdict == (findings.SelectionMismatch("sha256:0,4,7", "none"),)


def test_quirk_17_an_empty_bank_quotes_the_digest_of_nothing_and_is_refused(key):
    empty = PcrSelection(((Bank.SHA256, ()),))
    parts = parts_of(key, selection=empty)

    assert parts.attest().endswith(bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"))
    assert [type(finding) for finding in judged(parts)] == [findings.SelectionMismatch]


def test_pcr_values_that_were_not_quoted_are_refused(key):
    values = pcrs()
    values[Bank.SHA256][4] = bytes(32)

    assert judged(parts_of(key), values=values) == (findings.PcrDigestMismatch(),)


def test_pcr_values_swapped_with_each_other_are_refused(key):
    values = pcrs()
    bank = values[Bank.SHA256]
    bank[0], bank[4] = bank[4], bank[0]

    assert judged(parts_of(key), values=values) == (findings.PcrDigestMismatch(),)


def test_values_with_the_same_concatenation_but_other_lengths_are_refused(key):
    values = pcrs()
    bank = values[Bank.SHA256]
    bank[0], bank[4] = bank[0] + bank[4][:1], bank[4][1:]

    verdict = judged(parts_of(key), values=values)

    assert [type(finding) for finding in verdict] == [findings.PcrValuesMissing]


def test_a_missing_pcr_value_is_refused(key):
    values = pcrs()
    del values[Bank.SHA256][7]

    assert judged(parts_of(key), values=values) == (findings.PcrValuesMissing("no value for PCR 7 of sha256"),)


def test_a_replayed_quote_is_refused_by_its_nonce(key):
    earlier = parts_of(key, extra_data=b"o" * 32).signed()

    assert judged(parts_of(key), signed=earlier) == (findings.NonceMismatch(QUOTE),)


@pytest.mark.parametrize("length", range(0, 145, 7))
def test_a_truncated_quote_is_refused(key, length):
    raw, signature = parts_of(key).signed()

    verdict = judged(parts_of(key), signed=(raw[:length], signature))

    assert isinstance(verdict, tuple)
    assert findings.SignatureInvalid(QUOTE) in verdict


def test_a_quote_with_a_byte_more_is_refused_even_when_signed(key):
    verdict = judged(parts_of(key, tail=b"\0"))

    assert verdict == (findings.AttestMalformed(QUOTE, "1 bytes follow the quote"),)


def test_a_quote_without_its_end_is_refused_though_the_key_signed_it(key):
    raw = parts_of(key).attest()[:60]

    cut = findings.AttestMalformed(QUOTE, "the attestation is truncated")
    assert judged(parts_of(key), signed=(raw, key.sign(raw))) == (cut,)
    assert judged(parts_of(key), signed=(raw, key.sign(b"other"))) == (cut, findings.SignatureInvalid(QUOTE))
    assert judged(parts_of(key), signed=(raw, b"")) == (
        cut,
        findings.SignatureMalformed(QUOTE, "the signature is truncated"),
    )


def test_a_quote_with_its_fields_in_another_order_is_refused(key):
    raw = parts_of(key).attest()
    signer = sized(endorsement_qualified_name(key.public.name()))
    swapped = raw.replace(signer + sized(NONCE), sized(NONCE) + signer)

    verdict = judged(parts_of(key), signed=(swapped, key.sign(swapped)))

    assert verdict == (findings.NonceMismatch(QUOTE), findings.SignerMismatch(QUOTE))


@pytest.mark.parametrize("position", range(0, 145, 3))
def test_each_flipped_bit_of_a_quote_is_refused(key, position):
    raw, signature = parts_of(key).signed()
    flipped = bytearray(raw)
    flipped[position % len(raw)] ^= 1

    assert isinstance(judged(parts_of(key), signed=(bytes(flipped), signature)), tuple)


@pytest.mark.parametrize("which", ["r", "s"])
@pytest.mark.parametrize("value", [0, 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551])
def test_an_ecdsa_value_out_of_range_is_refused(key, which, value):
    raw, signature = parts_of(key).signed()
    r, s = signature[6:38], signature[40:72]
    wrong = value.to_bytes(32)
    forged = signature[:4] + sized(wrong if which == "r" else r) + sized(wrong if which == "s" else s)

    verdict = judged(parts_of(key), signed=(raw, forged))

    assert [type(finding) for finding in verdict] == [findings.SignatureMalformed]


def test_an_ecdsa_signature_with_another_hash_than_the_key_is_bound_to_is_refused(key):
    wrong = dataclasses.replace(key, hash=Bank.SHA384)
    raw = parts_of(key).attest()

    verdict = judged(parts_of(key), signed=(raw, wrong.sign(raw)))

    assert findings.SignatureMalformed(QUOTE, "the key is bound to another scheme or hash") in verdict


def unbound(key):
    """The same key without a scheme of its own, as a plain public key is given to `fleetd inspect quote`."""
    bound = struct.pack(">HH", key.scheme, 0x000B)
    return parse_public(key.public.raw.replace(bound, struct.pack(">H", Algorithm.NULL), 1))


@pytest.mark.parametrize(
    "make", [ecc_key, rsa_key, lambda: rsa_key(Algorithm.RSAPSS)], ids=["ECDSA", "RSASSA", "RSAPSS"]
)
def test_a_key_that_is_bound_to_no_scheme_is_checked_by_the_signature_s_own(make):
    key = make()
    message = b"an attestation"

    assert is_signed_by(unbound(key), message, parse_signature(key.sign(message)))
    assert not is_signed_by(unbound(key), b"another", parse_signature(key.sign(message)))


def test_a_signature_with_a_hash_that_is_not_checked_here_is_refused(key):
    sm3 = struct.pack(">HH", 0x0018, 0x0012) + sized(b"\x01") + sized(b"\x01")

    with pytest.raises(WrongScheme, match="sm3_256 are not checked"):
        is_signed_by(unbound(key), b"an attestation", parse_signature(sm3))


def test_a_sha1_signature_is_refused_as_weak_and_not_as_invalid():
    weak = ecc_key(hashed=Bank.SHA1)

    assert judged(parts_of(weak)) == (findings.WeakHash(QUOTE, "sha1"),)


def test_an_rsa_signature_by_an_ecc_key_is_refused(key):
    raw = parts_of(key).attest()

    verdict = judged(parts_of(key), signed=(raw, rsa_key().sign(raw)))

    assert findings.SignatureMalformed(QUOTE, "rsassa is not a scheme of this key's type") in verdict


def test_an_rsa_signature_with_leading_zeros_cut_is_refused():
    key = rsa_key()
    raw, signature = parts_of(key).signed()
    short = signature[:4] + sized(signature[7:])

    verdict = judged(parts_of(key), signed=(raw, short))

    assert findings.SignatureMalformed(QUOTE, "the signature is not as long as the key") in verdict


@pytest.mark.parametrize(
    ("signature", "problem"),
    [
        (b"", "the signature is truncated"),
        (struct.pack(">HH", 0x0018, 0x9999), "the signature's hash 0x9999 is not known"),
        (struct.pack(">HH", 0x001A, 0x000B), "the signature scheme 0x001a is not known"),
        (struct.pack(">HHH", 0x0018, 0x000B, 40) + bytes(10), "the signature is truncated"),
    ],
)
def test_a_signature_that_cannot_be_read_says_why(key, signature, problem):
    verdict = judged(parts_of(key), signed=(parts_of(key).attest(), signature))

    assert findings.SignatureMalformed(QUOTE, problem) in verdict


def test_bytes_after_a_signature_are_refused(key):
    raw, signature = parts_of(key).signed()

    verdict = judged(parts_of(key), signed=(raw, signature + b"\0"))

    assert findings.SignatureMalformed(QUOTE, "1 bytes follow the signature") in verdict


def test_a_point_that_is_not_on_its_curve_is_refused(key):
    area = key.public
    assert isinstance(area.parameters, EccParameters)
    wrong = parse_public(area.raw[:-1] + bytes((area.raw[-1] ^ 1,)))

    verdict = judged(parts_of(dataclasses.replace(key, public=wrong)))

    assert verdict == (findings.KeyUnusable(QUOTE, "the point is not on its curve"),)


def test_no_finding_tells_the_value_that_would_have_been_accepted(key):
    wrong = parts_of(key, extra_data=bytes(32), digest=bytes(32), signer=b"\x00\x0b" + bytes(32))

    verdict = judged(wrong)

    told = "".join(finding.sentence() + str(finding.evidence()) for finding in verdict)
    good = parts_of(key)
    for secret in (NONCE, endorsement_qualified_name(key.public.name()), pcr_digest(SELECTION, pcrs(), Bank.SHA256)):
        assert secret.hex() not in told
        assert good.attest()


def test_all_that_is_wrong_with_a_quote_is_told_at_once(key):
    wrong = parts_of(
        key,
        magic=1,
        kind=0x8018,
        extra_data=b"",
        digest=bytes(32),
        signer=b"",
        selection=PcrSelection.of(Bank.SHA256, 1),
    )

    verdict = judged(wrong)

    assert [finding.code for finding in verdict] == [
        "attest-magic",
        "nonce-mismatch",
        "attest-signer",
        "pcr-selection",
        "pcr-digest",
    ]


def test_quirk_30_the_qualified_name_of_a_sha384_name_uses_sha384():
    key = ecc_key(Curve.P384, hashed=Bank.SHA384, name_alg=Algorithm.SHA384)

    assert len(endorsement_qualified_name(key.public.name())) == 2 + 48
    assert isinstance(judged(parts_of(key)), VerifiedQuote)


def test_quirk_11_a_p384_key_quotes_with_a_sha384_pcr_digest():
    key = ecc_key(Curve.P384, hashed=Bank.SHA384)
    parts = parts_of(key)

    assert len(pcr_digest(SELECTION, parts.pcrs, Bank.SHA384)) == 48
    assert isinstance(judged(parts), VerifiedQuote)
    assert judged(dataclasses.replace(parts, digest=pcr_digest(SELECTION, parts.pcrs, Bank.SHA256))) == (
        findings.PcrDigestMismatch(),
    )


def test_a_name_of_an_unknown_algorithm_has_no_qualified_name():
    with pytest.raises(ValueError, match="unknown name algorithm"):
        endorsement_qualified_name(b"\x00\x04" + bytes(20))


def test_a_verified_quote_holds_its_digest_and_selection(key):
    verdict = judged(parts_of(key))

    assert verdict.selection == SELECTION
    assert verdict.pcr_digest == pcr_digest(SELECTION, pcrs(), Bank.SHA256)


def test_a_quoted_bank_without_any_sent_value_is_refused(key):
    assert [finding.code for finding in judged(parts_of(key), values={})] == ["pcr-values"]


@pytest.mark.parametrize(("r", "s"), [(1, 2), (2, 1)])
def test_the_smallest_values_of_ecdsa_are_in_range_and_invalid(key, r, s):
    raw, _ = parts_of(key).signed()
    signature = struct.pack(">HH", 0x18, 0x0B) + sized(r.to_bytes(32)) + sized(s.to_bytes(32))

    assert [finding.code for finding in judged(parts_of(key), signed=(raw, signature))] == ["signature-invalid"]


def test_a_clock_that_is_neither_safe_nor_unsafe_is_refused(key):
    codes = [finding.code for finding in judged(parts_of(key, clock=(1_000_000, 5, 2, 2)))]

    assert codes == ["attest-malformed"]


def test_structures_of_the_largest_size_are_read_and_one_byte_more_is_not(key):
    head = parts_of(key).head()
    padded = head + bytes(MAX_ATTEST - len(head))
    signature = struct.pack(">HHH", 0x14, 0x0B, MAX_SIGNATURE - 6) + bytes(MAX_SIGNATURE - 6)

    assert len(parse_attest(padded).body) == MAX_ATTEST - len(head)
    assert len(parse_signature(signature).value) == MAX_SIGNATURE - 6
    for parse, raw in ((parse_attest, padded), (parse_signature, signature)):
        with pytest.raises(MalformedStructure):
            parse(raw + b"\0")


def test_a_bitmap_of_many_bytes_is_read_and_must_end(key):
    wide = parts_of(key, selection_size=200)

    assert isinstance(judged(wide), VerifiedQuote)


def test_a_coordinate_longer_than_the_field_is_no_point(key):
    area = key.public
    for point in (EccPoint(b"\0" + area.unique.x, area.unique.y), EccPoint(area.unique.x, b"\0" + area.unique.y)):
        with pytest.raises(MalformedStructure, match="longer"):
            dataclasses.replace(area, unique=point).to_public_key()
