"""Quotes and certifications, verified: the only place where a RawQuote becomes a VerifiedQuote.

Sources: TPM 2.0 Part 3, TPM2_Quote and TPM2_Certify; Part 1, "Names" (Qualified Names).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NewType

from fleetd.core.attestation.attest import (
    ATTEST_CERTIFY,
    ATTEST_QUOTE,
    TPM_GENERATED,
    Attest,
    TpmClock,
    parse_attest,
    parse_certify_info,
    parse_quote_info,
    parse_signature,
)
from fleetd.core.attestation.banks import HASH, SIZE, Bank, PcrSelection, PcrValues
from fleetd.core.attestation.signature import UnusableKey, WrongScheme, is_signed_by
from fleetd.core.attestation.structures import MalformedStructure, PublicArea
from fleetd.core.findings import quote as findings
from fleetd.core.findings.finding import Finding
from fleetd.core.findings.quote import Attested

RawQuote = NewType("RawQuote", bytes)
"""A TPMS_ATTEST as it came from a machine."""

RawCertify = NewType("RawCertify", bytes)
"""A TPMS_ATTEST of type certify as it came from a machine."""

ENDORSEMENT_HIERARCHY: Final = (0x4000000B).to_bytes(4, "big")
STRONG_HASHES: Final = frozenset({Bank.SHA256, Bank.SHA384, Bank.SHA512, Bank.SHA3_256, Bank.SHA3_384, Bank.SHA3_512})


@dataclass(frozen=True, slots=True)
class VerifiedQuote:
    """A quote whose signature, nonce, signer, selection and PCR digest were checked; made only by `verify_quote`."""

    pcrs: PcrValues
    clock: TpmClock
    firmware_version: int
    pcr_digest: bytes
    selection: PcrSelection

    def values(self, bank: Bank) -> Mapping[int, bytes]:
        """Return the quoted values of a bank; empty when it was not quoted."""
        return self.pcrs.get(bank, {})


@dataclass(frozen=True, slots=True)
class VerifiedCertify:
    """A certification whose signature, nonce, signer and certified name were checked; made only by `verify_certify`."""

    name: bytes
    clock: TpmClock


def verify_quote(
    raw: RawQuote,
    signature: bytes,
    lak: PublicArea,
    extra_data: bytes,
    demanded: PcrSelection,
    pcrs: PcrValues,
) -> VerifiedQuote | tuple[Finding, ...]:
    """Check a quote by the LAK over `demanded`, made for `extra_data`; return it verified, or all that is wrong.

    Not checked here: the LAK's attributes and its activation. Without them a quote proves nothing.
    """
    about = Attested.QUOTE
    try:
        attest = parse_attest(raw)
    except MalformedStructure as error:
        return (findings.AttestMalformed(about, str(error)), *_signature_findings(about, raw, signature, lak))
    found: list[Finding] = [*_origin_findings(about, attest, ATTEST_QUOTE, lak, extra_data)]
    info = None
    if attest.kind == ATTEST_QUOTE:
        try:
            info = parse_quote_info(attest.body)
        except MalformedStructure as error:
            found.append(findings.AttestMalformed(about, str(error)))
    sent: PcrValues = {}
    if info is not None:
        if not info.selection.same_as(demanded):
            found.append(findings.SelectionMismatch(str(demanded), str(info.selection)))
        problem, sent = _quoted_values(info.selection, pcrs)
        if problem:
            found.append(findings.PcrValuesMissing(problem))
    found.extend(_signature_findings(about, raw, signature, lak, info.pcr_digest if info else None, sent))
    if found or info is None:
        return tuple(found)
    return VerifiedQuote(sent, attest.clock, attest.firmware_version, info.pcr_digest, info.selection)


def verify_certify(
    raw: RawCertify, signature: bytes, lak: PublicArea, extra_data: bytes, certified: PublicArea
) -> VerifiedCertify | tuple[Finding, ...]:
    """Check that the LAK certified exactly this key, for `extra_data`; return that, or all that is wrong."""
    about = Attested.CERTIFY
    try:
        attest = parse_attest(raw)
    except MalformedStructure as error:
        return (findings.AttestMalformed(about, str(error)), *_signature_findings(about, raw, signature, lak))
    found: list[Finding] = [*_origin_findings(about, attest, ATTEST_CERTIFY, lak, extra_data)]
    info = None
    if attest.kind == ATTEST_CERTIFY:
        try:
            info = parse_certify_info(attest.body)
        except MalformedStructure as error:
            found.append(findings.AttestMalformed(about, str(error)))
    if info is not None and not hmac.compare_digest(info.name, certified.name()):
        found.append(findings.CertifiedAnotherKey())
    found.extend(_signature_findings(about, raw, signature, lak))
    if found or info is None:
        return tuple(found)
    return VerifiedCertify(info.name, attest.clock)


@lru_cache(maxsize=4096)
def endorsement_qualified_name(name: bytes) -> bytes:
    """Return the Qualified Name of a primary key of the endorsement hierarchy: nameAlg || H(hierarchy || Name).

    Raises ValueError when the name's algorithm is not known.
    """
    algorithm = name[:2]
    hashed = {b"\x00\x0b": hashlib.sha256, b"\x00\x0c": hashlib.sha384, b"\x00\x0d": hashlib.sha512}.get(algorithm)
    if hashed is None:
        raise ValueError(f"unknown name algorithm {algorithm.hex()}")
    return algorithm + hashed(ENDORSEMENT_HIERARCHY + name).digest()


def pcr_digest(selection: PcrSelection, pcrs: PcrValues, hashed: Bank) -> bytes:
    """Return the digest that a TPM quotes for these values: one hash over all, in the order of the selection."""
    values = b"".join(pcrs[bank][index] for bank, indexes in selection.banks for index in indexes)
    return bytes(HASH[hashed](values).digest())


def _origin_findings(
    about: Attested, attest: Attest, kind: int, lak: PublicArea, extra_data: bytes
) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if attest.magic != TPM_GENERATED:
        found.append(findings.NotMadeByTpm(about))
    if attest.kind != kind:
        found.append(findings.WrongAttestType(about, attest.kind))
    if not hmac.compare_digest(attest.extra_data, extra_data):
        found.append(findings.NonceMismatch(about))
    if attest.qualified_signer != endorsement_qualified_name(lak.name()):
        found.append(findings.SignerMismatch(about))
    return tuple(found)


def _quoted_values(selection: PcrSelection, pcrs: PcrValues) -> tuple[str | None, PcrValues]:
    """Pick the selected values; what was sent beyond them is dropped, as nothing vouches for it."""
    picked: dict[Bank, dict[int, bytes]] = {}
    for bank, indexes in selection.banks:
        sent, size = pcrs.get(bank, {}), SIZE[bank]
        values: dict[int, bytes] = {}
        for index in indexes:
            value = sent.get(index)
            if value is None:
                return f"no value for PCR {index} of {bank}", {}
            if len(value) != size:
                return f"the value of PCR {index} of {bank} does not have {size} bytes", {}
            values[index] = value
        picked[bank] = values
    return None, picked


def _signature_findings(
    about: Attested,
    raw: bytes,
    signature: bytes,
    lak: PublicArea,
    digest: bytes | None = None,
    sent: PcrValues | None = None,
) -> tuple[Finding, ...]:
    """Check the signature, and with its hash algorithm the PCR digest: TPMs hash both alike."""
    try:
        parsed = parse_signature(signature)
    except MalformedStructure as error:
        return (findings.SignatureMalformed(about, str(error)),)
    found: list[Finding] = []
    if digest is not None and sent:
        values = b"".join([value for bank in sent.values() for value in bank.values()])
        if not hmac.compare_digest(HASH[parsed.hash](values).digest(), digest):
            found.append(findings.PcrDigestMismatch())
    if parsed.hash not in STRONG_HASHES:
        found.append(findings.WeakHash(about, parsed.hash.value))
    try:
        if not is_signed_by(lak, raw, parsed):
            found.append(findings.SignatureInvalid(about))
    except WrongScheme as error:
        found.append(findings.SignatureMalformed(about, str(error)))
    except UnusableKey as error:
        found.append(findings.KeyUnusable(about, str(error)))
    return tuple(found)
