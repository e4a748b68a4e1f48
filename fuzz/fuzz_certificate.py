"""Certificates and revocation lists: extraction from NV, DER, the certified key, and the search for a path."""

from cryptography.hazmat.primitives.serialization import Encoding

from fleetd.core.attestation.certificate import extract_certificate, parse_certificate
from fleetd.core.attestation.endorsement import EndorsementRules, OfferedKey, judge_endorsement_key
from fleetd.core.attestation.revocation import parse_revocation_list
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.attestation.structures import MalformedStructure
from fuzz import driver
from tests.unit.attestation import maker

ROOT = maker.Ca("root")
ISSUING = maker.Ca("issuing", ROOT)
EK = maker.ecc_key().public_key()
PUBLIC = maker.ecc_ek(EK)
GOOD = maker.ek_certificate(ISSUING, EK)
STORE = TrustStore.of(manufacturers=[ROOT.parsed], links=[ISSUING.parsed])


def judge(data: bytes) -> None:
    """Read the bytes in every way; offered with a good EK, only its own certificate is accepted."""
    for read in (extract_certificate, parse_certificate, parse_revocation_list):
        try:
            read(data)
        except MalformedStructure:
            continue
    verdict = judge_endorsement_key(OfferedKey(PUBLIC, data, (data,)), STORE, EndorsementRules(), maker.NOW)
    assert not verdict.accepted or GOOD in data or extract_certificate(data) == GOOD
    judge_endorsement_key(OfferedKey(data, GOOD, ()), STORE, EndorsementRules(), maker.NOW)


if __name__ == "__main__":
    made = [GOOD, ROOT.der, ISSUING.x509.public_bytes(Encoding.PEM), GOOD + b"\xff" * 300]
    driver.run(judge, [*made, *driver.recorded("ek", ".der"), *driver.recorded("ek", ".bin")])
