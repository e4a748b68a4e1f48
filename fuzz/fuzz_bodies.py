"""The bodies that strangers send: enrollments and boot checks, from JSON to the verdict."""

import base64
import json

from pydantic import ValidationError

from fleetd.app.messages import Check, Enroll
from fleetd.app.pcrs import pcr_values
from fleetd.app.untrusted import json_object
from fleetd.core.attestation.policy import AttestationPolicy, InstallBoot, InstallPolicy
from fleetd.core.attestation.quote import RawCertify, RawQuote
from fleetd.core.attestation.transcript import Label, Transcript, extra_data
from fleetd.core.attestation.verdict import (
    CheckEvidence,
    CheckExpectation,
    CheckResult,
    EnrollmentEvidence,
    EnrollmentExpectation,
    verify_check,
    verify_enrollment,
)
from fuzz import driver
from tests.unit.attestation.evidence import QuoteParts, a_boot, certify, ecc_key, ldevid_key

POLICY = AttestationPolicy(InstallPolicy(InstallBoot.NETWORK_TRUSTED))
NONCE, TRANSCRIPT = bytes(32), Transcript(bytes(32))
KEY, LDEVID = ecc_key(), ldevid_key()
BOOT = a_boot()
PCRS = {bank: dict(values) for bank, values in BOOT.pcrs.items() if bank == "sha256"}


def judge(data: bytes) -> None:
    """Read the bytes as each body and judge what they claim."""
    try:
        enroll = Enroll.model_validate_json(data)
    except ValidationError:
        pass
    else:
        _enrolled(enroll)
    try:
        check = Check.model_validate_json(data)
    except ValidationError:
        return
    evidence = CheckEvidence(RawQuote(check.quote.attest), check.quote.signature, pcr_values(check.pcrs), check.log)
    expected = CheckExpectation(KEY.public, NONCE, TRANSCRIPT, POLICY.selection)
    verdict = verify_check(evidence, expected, None, POLICY, None)
    assert verdict.result is not CheckResult.OK or check.quote.attest == SIGNED[Label.CHECK][0]


def _enrolled(enroll: Enroll) -> None:
    try:
        json_object(enroll.facts)
    except ValueError:
        return
    evidence = EnrollmentEvidence(
        enroll.lak,
        enroll.ldevid.public,
        RawQuote(enroll.quote.attest),
        enroll.quote.signature,
        RawCertify(enroll.certify.attest),
        enroll.certify.signature,
        pcr_values(enroll.pcrs),
        enroll.log,
    )
    verify_enrollment(evidence, EnrollmentExpectation(NONCE, TRANSCRIPT, POLICY.selection), POLICY)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _signed(label: Label) -> tuple[bytes, bytes]:
    return QuoteParts(KEY, PCRS, POLICY.selection, extra_data(label, NONCE, TRANSCRIPT)).signed()


SIGNED = {label: _signed(label) for label in (Label.CHECK, Label.ENROLL_QUOTE)}


def _bodies() -> list[bytes]:
    def attested(pair: tuple[bytes, bytes]) -> dict[str, str]:
        return {"attest": _b64(pair[0]), "signature": _b64(pair[1])}

    values = {"sha256": {str(pcr): value.hex() for pcr, value in next(iter(PCRS.values())).items()}}
    common = {"version": 1, "token": "t" * 40, "pcrs": values, "log": _b64(BOOT.bytes())}
    certified = certify(KEY, LDEVID.public, extra_data(Label.ENROLL_CERTIFY, NONCE, TRANSCRIPT))
    enroll = common | {
        "activation": _b64(bytes(32)),
        "eks": [{"public": _b64(KEY.public.raw)}],
        "lak": _b64(KEY.public.raw),
        "ldevid": {"public": _b64(LDEVID.public.raw), "private": _b64(bytes(126))},
        "quote": attested(SIGNED[Label.ENROLL_QUOTE]),
        "certify": attested(certified),
        "facts": _b64(b'{"dmi": {"serial": "A1"}}'),
    }
    check = common | {"machine": 1, "certificates": ["0a"], "quote": attested(SIGNED[Label.CHECK])}
    return [json.dumps(body).encode() for body in (enroll, check)]


if __name__ == "__main__":
    bodies = _bodies()
    Enroll.model_validate_json(bodies[0])
    Check.model_validate_json(bodies[1])
    driver.run(judge, bodies)
