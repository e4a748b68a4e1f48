"""A TPM maker in software: CAs, EK certificates and the public areas that belong to them."""

from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from fleetd.core.attestation.certificate import parse_certificate
from fleetd.core.attestation.endorsement import POLICIES
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    EccPoint,
    RsaParameters,
    Scheme,
    SymmetricParameters,
    marshal_public,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
EK_ATTRIBUTES = (
    Attribute.FIXED_TPM
    | Attribute.FIXED_PARENT
    | Attribute.SENSITIVE_DATA_ORIGIN
    | Attribute.ADMIN_WITH_POLICY
    | Attribute.RESTRICTED
    | Attribute.DECRYPT
)
POLICY_A = bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
CURVES = {Curve.P256: ec.SECP256R1(), Curve.P384: ec.SECP384R1(), Curve.P521: ec.SECP521R1()}


class Ca:
    """A CA that signs others; `parent` None makes a root."""

    def __init__(self, name, parent=None, *, key=None, ca=True, path_length=None, key_usage=True, until=None, extra=()):
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = parent or self
        builder = certificate_builder(self.name, signer.name, self.key.public_key(), until=until)
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False
        )
        if parent:
            builder = builder.add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(parent.key.public_key()), critical=False
            )
        if key_usage is not None:
            builder = builder.add_extension(usage(sign=key_usage), critical=True)
        for extension in extra:
            builder = builder.add_extension(extension, critical=True)
        self.x509 = builder.sign(signer.key, hashes.SHA256())
        self.der = self.x509.public_bytes(Encoding.DER)

    @property
    def parsed(self):
        return parse_certificate(self.der)


def certificate_builder(subject, issuer, key, *, since=NOW - timedelta(days=400), until=None, serial=None):
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until or NOW + timedelta(days=3650))
    )


def usage(*, sign=True):
    return x509.KeyUsage(
        digital_signature=not sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign,
        crl_sign=sign,
        encipher_only=False,
        decipher_only=False,
    )


def ek_certificate(
    issuer,
    key,
    *,
    eku="2.23.133.8.1",
    manufacturer="id:494E5443",
    one_rdn=False,
    ca=False,
    critical_san=True,
    algorithm=None,
    since=NOW - timedelta(days=400),
    until=None,
    extra=(),
    aki=True,
):
    attributes = [
        x509.NameAttribute(ObjectIdentifier(f"2.23.133.2.{number}"), value)
        for number, value in ((1, manufacturer), (2, "Model"), (3, "id:0001"))
        if value
    ]
    rdns = (
        [x509.RelativeDistinguishedName(attributes)]
        if one_rdn
        else [x509.RelativeDistinguishedName([a]) for a in attributes]
    )
    builder = certificate_builder(x509.Name([]), issuer.name, key, since=since, until=until)
    if attributes:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DirectoryName(x509.Name(rdns))]), critical=critical_san
        )
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if eku:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ObjectIdentifier(eku)]), critical=True)
    if aki:
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False
        )
    for extension, critical in extra:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer.key, algorithm or hashes.SHA256()).public_bytes(Encoding.DER)


def ecc_ek(key, *, curve=Curve.P256, attributes=EK_ATTRIBUTES, policy=POLICY_A, name_alg=Algorithm.SHA256, bits=128):
    numbers = key.public_numbers() if hasattr(key, "public_numbers") else key
    if name_alg is not Algorithm.SHA256:
        policy = next(iter(POLICIES[name_alg]))
    return marshal_public(
        Algorithm.ECC,
        attributes,
        EccParameters(
            SymmetricParameters(Algorithm.AES, bits, Algorithm.CFB),
            Scheme(Algorithm.NULL),
            curve,
            Scheme(Algorithm.NULL),
        ),
        EccPoint(numbers.x.to_bytes(curve.size), numbers.y.to_bytes(curve.size)),
        name_alg=name_alg,
        auth_policy=policy,
    )


def rsa_ek(modulus, *, key_bits=2048, exponent=0, attributes=EK_ATTRIBUTES, policy=POLICY_A):
    return marshal_public(
        Algorithm.RSA,
        attributes,
        RsaParameters(
            SymmetricParameters(Algorithm.AES, 128, Algorithm.CFB), Scheme(Algorithm.NULL), key_bits, exponent
        ),
        modulus.to_bytes(-(-modulus.bit_length() // 8)) if isinstance(modulus, int) else modulus,
        auth_policy=policy,
    )


def ecc_key(curve=Curve.P256):
    return ec.generate_private_key(CURVES[curve])


@cache
def rsa_key(bits=2048, name="", exponent=65537):
    """RSA keys take long to make: one of each kind and name is kept for the session."""
    return rsa.generate_private_key(exponent, bits)
