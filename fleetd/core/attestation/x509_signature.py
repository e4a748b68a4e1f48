"""Whether a certificate's signature verifies over the bytes that stand in it, under a given key.

Source: RFC 5280, 4.1.1.3; RFC 4055 (RSA); RFC 5758 (ECDSA). A verified link is remembered: intermediates are the same for
thousands of machines.
"""

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from fleetd.core.attestation import der
from fleetd.core.attestation.certificate import Certificate, PublicKey
from fleetd.core.attestation.structures import MalformedStructure

_RSA: Final[dict[str, hashes.HashAlgorithm]] = {
    "1.2.840.113549.1.1.5": hashes.SHA1(),  # noqa: S303 - old manufacturers' CAs; judged by the chain's rules
    "1.2.840.113549.1.1.11": hashes.SHA256(),
    "1.2.840.113549.1.1.12": hashes.SHA384(),
    "1.2.840.113549.1.1.13": hashes.SHA512(),
}
_ECDSA: Final[dict[str, hashes.HashAlgorithm]] = {
    "1.2.840.10045.4.1": hashes.SHA1(),  # noqa: S303
    "1.2.840.10045.4.3.2": hashes.SHA256(),
    "1.2.840.10045.4.3.3": hashes.SHA384(),
    "1.2.840.10045.4.3.4": hashes.SHA512(),
}
_PSS: Final = "1.2.840.113549.1.1.10"
_HASH_OIDS: Final[dict[str, hashes.HashAlgorithm]] = {
    "2.16.840.1.101.3.4.2.1": hashes.SHA256(),
    "2.16.840.1.101.3.4.2.2": hashes.SHA384(),
    "2.16.840.1.101.3.4.2.3": hashes.SHA512(),
}


def uses_sha1(certificate: Certificate) -> bool:
    """Tell whether the certificate is signed with SHA-1."""
    return certificate.signature_algorithm in {"1.2.840.113549.1.1.5", "1.2.840.10045.4.1"}


def is_signed_by(certificate: Certificate, issuer: Certificate) -> bool:
    """Tell whether the issuer's key signed the certificate; an algorithm that is not understood counts as no."""
    try:
        key = issuer.public_key
    except MalformedStructure:
        return False
    return verifies(
        key, certificate.tbs, certificate.signature, certificate.signature_algorithm, certificate.signature_parameters
    )


@lru_cache(maxsize=1024)
def link_holds(certificate: Certificate, issuer: Certificate) -> bool:
    """`is_signed_by`, remembered: for links between CAs, of which there are few."""
    return is_signed_by(certificate, issuer)


def verifies(key: PublicKey, signed: bytes, signature: bytes, algorithm: str, parameters: bytes) -> bool:
    """Tell whether the signature over the bytes verifies under the key."""
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if algorithm == _PSS:
                return _verifies_pss(key, signed, signature, parameters)
            if algorithm in _RSA:
                key.verify(signature, signed, padding.PKCS1v15(), _RSA[algorithm])
                return True
        elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm in _ECDSA:
            key.verify(signature, signed, ec.ECDSA(_ECDSA[algorithm]))
            return True
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, MalformedStructure):
        return False
    return False


def _verifies_pss(key: rsa.RSAPublicKey, signed: bytes, signature: bytes, parameters: bytes) -> bool:
    """Verify RSASSA-PSS whose hash the parameters name; the default, SHA-1, is not accepted."""
    algorithm = None
    for part in der.only_element(parameters, der.SEQUENCE, "the PSS parameters").children():
        if part.tag == 0xA0:
            inner = der.only_element(part.content, der.SEQUENCE, "the PSS hash").children()
            algorithm = _HASH_OIDS.get(der.oid(inner[0].content)) if inner else None
    if algorithm is None:
        return False
    key.verify(signature, signed, padding.PSS(padding.MGF1(algorithm), padding.PSS.AUTO), algorithm)
    return True
