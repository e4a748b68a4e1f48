"""TPMT_PUBLIC: parsing, Name, the key itself, and the forms demanded of LAK and LDevID."""

from fleetd.core.attestation.device_keys import judge_lak, judge_ldevid
from fleetd.core.attestation.structures import MalformedStructure, parse_public
from fuzz import driver
from tests.unit.attestation.evidence import ecc_key, ldevid_key, rsa_key


def judge(data: bytes) -> None:
    """Read the bytes as a public area; what can be read has a Name and a judgement."""
    try:
        area = parse_public(data)
    except MalformedStructure:
        return
    assert area.raw == data
    area.name()
    judge_lak(area)
    judge_ldevid(area)
    try:
        area.to_public_key()
    except MalformedStructure:
        return


if __name__ == "__main__":
    driver.run(judge, [key.public.raw for key in (ecc_key(), ldevid_key(), rsa_key())])
