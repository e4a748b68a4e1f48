"""Attestations, signatures and PCR selections: the parsers, and the whole verification of a quote."""

import base64
import json

from fleetd.core.attestation.attest import (
    parse_attest,
    parse_certify_info,
    parse_quote_info,
    parse_signature,
)
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.quote import RawCertify, RawQuote, verify_certify, verify_quote
from fleetd.core.attestation.structures import MalformedStructure
from fuzz import driver
from tests.unit.attestation.evidence import QuoteParts, certify, ecc_key, ldevid_key

KEY, LDEVID = ecc_key(), ldevid_key()
SELECTION = PcrSelection.of(Bank.SHA256, 0, 7)
PCRS = {Bank.SHA256: {pcr: bytes(32) for pcr in range(24)}}
QUOTE, SIGNATURE = QuoteParts(KEY, PCRS, SELECTION).signed()
CERTIFY, _ = certify(KEY, LDEVID.public, bytes(32))


def judge(data: bytes) -> None:
    """Read the bytes as each structure; split in two, verify them as a quote and its signature."""
    for parse in (parse_attest, parse_quote_info, parse_certify_info, parse_signature):
        try:
            parse(data)
        except MalformedStructure:
            continue
    at = data[0] if data else 0
    verified = verify_quote(RawQuote(data[1:at]), data[at:], KEY.public, bytes(32), SELECTION, PCRS)
    assert isinstance(verified, tuple) or data[1:at] == QUOTE
    assert (
        isinstance(verify_quote(RawQuote(data), SIGNATURE, KEY.public, bytes(32), SELECTION, PCRS), tuple)
        or data == QUOTE
    )
    assert isinstance(verify_certify(RawCertify(data), SIGNATURE, KEY.public, bytes(32), LDEVID.public), tuple)


if __name__ == "__main__":
    recorded = [json.loads(each) for each in driver.recorded("quotes", ".json")]
    seeds = [base64.b64decode(each["attest_b64"]) for each in recorded if "attest_b64" in each]
    driver.run(judge, [QUOTE, SIGNATURE, CERTIFY, bytes((len(QUOTE) + 1,)) + QUOTE + SIGNATURE, *seeds])
