"""Signatures of TPM keys over attestations.

Sources: TPM 2.0 Part 1, appendix B (RSA: PSS salts may have any length) and C (ECC).
"""

import hashlib
import hmac
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from fleetd.core.attestation.attest import Scheme, Signature
from fleetd.core.attestation.banks import ALGORITHM, Bank
from fleetd.core.attestation.structures import HASHES, Algorithm, MalformedStructure, PublicArea

_HASHES: Final[dict[Bank, hashes.HashAlgorithm]] = {
    Bank.SHA1: hashes.SHA1(),  # noqa: S303 - verified so that the finding can say "weak" instead of "invalid"
    Bank.SHA256: hashes.SHA256(),
    Bank.SHA384: hashes.SHA384(),
    Bank.SHA512: hashes.SHA512(),
    Bank.SHA3_256: hashes.SHA3_256(),
    Bank.SHA3_384: hashes.SHA3_384(),
    Bank.SHA3_512: hashes.SHA3_512(),
}
_SCHEMES: Final = {
    Scheme.RSASSA: Algorithm.RSASSA,
    Scheme.RSAPSS: Algorithm.RSAPSS,
    Scheme.ECDSA: Algorithm.ECDSA,
}
_ECDSA: Final = {bank: ec.ECDSA(algorithm) for bank, algorithm in _HASHES.items()}
_PKCS1: Final = padding.PKCS1v15()

HMAC_HASHES: Final = {algorithm.to_bytes(2): name for algorithm, name in HASHES.items() if algorithm != Algorithm.SHA1}

_ORDERS: Final = {
    "secp256r1": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "secp384r1": int(
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973", 16
    ),
    "secp521r1": int("01" + "F" * 65 + "A" + "51868783BF2F966B7FCC0148F709A5D03BB5C9B8899C47AEBB6FB71E91386409", 16),
}


class WrongScheme(ValueError):  # noqa: N818 - a verdict on the bytes, not a fault of the program
    """The signature is of a kind that this key does not make."""


class UnusableKey(ValueError):  # noqa: N818 - a verdict on the bytes, not a fault of the program
    """The public key cannot check signatures."""


def is_signed_by(key: PublicArea, message: bytes, signature: Signature) -> bool:
    """Tell whether the key signed the message.

    Raises WrongScheme when the signature is of another scheme or hash than the key is bound to, or out of range, and
    UnusableKey when the key is no point on its curve or no RSA key.
    """
    _same_scheme(key, signature)
    hashed = _HASHES.get(signature.hash)
    if hashed is None:
        raise WrongScheme(f"signatures with {signature.hash} are not checked here")
    try:
        public = key.to_public_key()
    except MalformedStructure as error:
        raise UnusableKey(str(error)) from error
    try:
        if isinstance(public, ec.EllipticCurvePublicKey):
            public.verify(_dss(public, signature), message, _ECDSA[signature.hash])
        else:
            _verify_rsa(public, message, signature, hashed)
    except InvalidSignature:
        return False
    except UnsupportedAlgorithm as error:
        raise WrongScheme(f"signatures with {signature.hash} are not checked here") from error
    return True


def is_hmac_by(key: bytes, attest: bytes, signature: bytes) -> bool:
    """Tell whether a keyed-hash key made this TPMT_SIGNATURE over the attestation.

    A TPM signs the digest: HMAC(key, H(TPMS_ATTEST)), not HMAC(key, TPMS_ATTEST). False for any other form.
    """
    hashed = HMAC_HASHES.get(signature[2:4])
    if signature[:2] != Algorithm.HMAC.to_bytes(2) or hashed is None:
        return False
    made = hmac.digest(key, hashlib.new(hashed, attest).digest(), hashed)
    return hmac.compare_digest(made, signature[4:])


def _same_scheme(key: PublicArea, signature: Signature) -> None:
    if (key.type is Algorithm.ECC) != (signature.scheme is Scheme.ECDSA):
        raise WrongScheme(f"{signature.scheme} is not a scheme of this key's type")
    bound = key.parameters.scheme
    if bound.algorithm == Algorithm.NULL:
        return
    if bound.algorithm != _SCHEMES[signature.scheme] or bound.hash_alg != ALGORITHM[signature.hash]:
        raise WrongScheme("the key is bound to another scheme or hash")


def _dss(public: ec.EllipticCurvePublicKey, signature: Signature) -> bytes:
    order = _ORDERS[public.curve.name]
    if not (0 < signature.r < order and 0 < signature.s < order):
        raise WrongScheme("r or s is out of range")
    return encode_dss_signature(signature.r, signature.s)


def _verify_rsa(public: rsa.RSAPublicKey, message: bytes, signature: Signature, hashed: hashes.HashAlgorithm) -> None:
    if len(signature.value) * 8 != public.key_size:
        raise WrongScheme("the signature is not as long as the key")
    if signature.scheme is Scheme.RSAPSS:
        pss = padding.PSS(mgf=padding.MGF1(hashed), salt_length=padding.PSS.AUTO)
        public.verify(signature.value, message, pss, hashed)
    else:
        public.verify(signature.value, message, _PKCS1, hashed)
