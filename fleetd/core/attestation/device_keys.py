"""The two keys that an enrollment brings: the LAK, which signs what a TPM says, and the LDevID, which signs for the OS.

TPM 2.0 Part 2, 8.3. Exact attribute sets are demanded, not "at least": adminWithPolicy is clear on both, against the
TCG's templates, because TPM2_Certify needs the ADMIN role on the object.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    MalformedStructure,
    PublicArea,
    parse_public,
)
from fleetd.core.findings.quote import KeyForm

LDEVID_ATTRIBUTES: Final = (
    Attribute.FIXED_TPM
    | Attribute.FIXED_PARENT
    | Attribute.SENSITIVE_DATA_ORIGIN
    | Attribute.USER_WITH_AUTH
    | Attribute.NO_DA
    | Attribute.SIGN
)
LAK_ATTRIBUTES: Final = LDEVID_ATTRIBUTES | Attribute.RESTRICTED

_STRONG: Final = frozenset({Algorithm.SHA256, Algorithm.SHA384, Algorithm.SHA512})
_SIGNS: Final = frozenset({Algorithm.ECDSA, Algorithm.RSASSA, Algorithm.RSAPSS})

known_public = lru_cache(maxsize=4096)(parse_public)
"""`parse_public`, remembering keys: a machine's LAK is the same at each of its checks. Raises MalformedStructure."""


def judge_lak(lak: PublicArea) -> tuple[KeyForm, ...]:
    """Return what keeps the key from being a LAK; empty when a quote by it means what it says.

    Whether it is a primary of the endorsement hierarchy shows in a quote's qualifiedSigner, and that it lives in the
    TPM of an EK in that TPM's answer to the challenge.
    """
    return tuple(KeyForm("LAK", problem) for problem in _problems(lak, LAK_ATTRIBUTES))


def judge_ldevid(ldevid: PublicArea) -> tuple[KeyForm, ...]:
    """Return what keeps the key from being an LDevID: it must be a signing key that never leaves its TPM."""
    return tuple(KeyForm("LDevID", problem) for problem in _problems(ldevid, LDEVID_ATTRIBUTES))


def _problems(key: PublicArea, wanted: Attribute) -> Iterator[str]:
    if key.attributes != wanted:
        yield f"its attributes are 0x{int(key.attributes):08x}, not 0x{int(wanted):08x}"
    if key.auth_policy:
        yield "it has an authorization policy"
    parameters = key.parameters
    if parameters.symmetric is not None:
        yield "it has symmetric parameters"
    scheme = parameters.scheme
    if scheme.algorithm == Algorithm.NULL:
        if Attribute.RESTRICTED in wanted:
            yield "it is not bound to a signature scheme"
    elif scheme.algorithm not in _SIGNS or scheme.hash_alg not in _STRONG:
        yield f"its scheme 0x{scheme.algorithm:04x} with hash 0x{scheme.hash_alg:04x} is not a strong signature"
    if isinstance(parameters, EccParameters):
        if parameters.curve not in {Curve.P256, Curve.P384}:
            yield f"curve 0x{parameters.curve:04x} is neither P-256 nor P-384"
    elif parameters.key_bits != 2048:
        yield f"RSA with {parameters.key_bits} bits"
    try:
        key.to_public_key()
    except MalformedStructure as error:
        yield str(error)
