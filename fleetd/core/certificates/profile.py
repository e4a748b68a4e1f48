"""The profiles of all certificates that fleetd signs.

Sources: IEEE 802.1AR-2018, 8; TCG TPM 2.0 Keys for Device Identity and Attestation, 8 (LDevID, LAK); RFC 4108 (hardware
module name); RFC 4043 (permanent identifier); RFC 5280. SPIRE's tpm_devid tolerates no critical extension but the SAN.
"""

import string
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

BACKDATED: Final = timedelta(minutes=1)
"""How far notBefore lies in the past: clocks of machines differ."""

TPM_MANUFACTURER: Final = ObjectIdentifier("2.23.133.2.1")
TPM_MODEL: Final = ObjectIdentifier("2.23.133.2.2")
TPM_VERSION: Final = ObjectIdentifier("2.23.133.2.3")
AK_USAGE: Final = ObjectIdentifier("2.23.133.8.3")
NAME_OCTETS: Final = 64
"""Most octets of a common name and of a serial number (RFC 5280, appendix A)."""
_PRINTABLE: Final = frozenset(string.ascii_letters + string.digits + " '()+,-./:=?")
"""What a PrintableString holds (X.680, 41.4)."""
_HARDWARE_MODULE_NAME: Final = ObjectIdentifier("1.3.6.1.5.5.7.8.4")
_PERMANENT_IDENTIFIER: Final = ObjectIdentifier("1.3.6.1.5.5.7.8.3")
_TPM_HARDWARE: Final = "2.23.133.1.2"
_RESIDENCY: Final = "2.23.133.11.1.1"
_FIXED: Final = "2.23.133.11.1.2"
_RESTRICTED: Final = "2.23.133.11.1.3"


class Kind(StrEnum):
    """The kinds of device certificates."""

    LDEVID = "ldevid"
    LAK = "lak"


class Tier(StrEnum):
    """The CAs of the tree. Three issuers, so that a relying party can trust identities without attestation keys."""

    ROOT = "root"
    DEVID = "devid"
    AK = "ak"
    SERVER = "server"


ISSUER_OF: Final = {Kind.LDEVID: Tier.DEVID, Kind.LAK: Tier.AK}


@dataclass(frozen=True, slots=True)
class TpmIdentity:
    """Which TPM a device certificate speaks of."""

    manufacturer: str
    model: str
    version: str
    ek_key_id: bytes
    """Authority key id of the EK certificate; empty without one."""
    ek_serial: bytes
    """Serial number of the EK certificate, or the SHA-256 of the EK where there is none."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a device certificate shall say."""

    kind: Kind
    node_name: str
    device_serial: str
    tpm: TpmIdentity
    key: CertificatePublicKeyTypes
    not_before: datetime
    not_after: datetime
    serial: int
    """128 random bits, taken from the store before anything is built."""
    crl_url: str


def device_builder(request: DeviceRequest, issuer: x509.Certificate) -> x509.CertificateBuilder:
    """Return the builder of a device certificate, ready to be signed by the issuer's key."""
    subject = x509.Name([])
    if request.kind is Kind.LDEVID:
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, request.node_name)]
        if request.device_serial:
            parts.append(_serial_number(request.device_serial))
        subject = x509.Name(parts)
    usage = x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH if request.kind is Kind.LDEVID else AK_USAGE
    policies = [_RESIDENCY, _FIXED if request.kind is Kind.LDEVID else _RESTRICTED]
    builder = _builder(
        subject,
        request.key,
        issuer,
        request.serial,
        request.not_before,
        min(request.not_after, issuer.not_valid_after_utc),
    )
    builder = builder.add_extension(_alternative_name(request), critical=request.kind is Kind.LAK)
    builder = builder.add_extension(_key_usage(digital_signature=True), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    builder = builder.add_extension(
        x509.CertificatePolicies([x509.PolicyInformation(ObjectIdentifier(policy), None) for policy in policies]),
        critical=False,
    )
    return builder.add_extension(_distribution_point(request.crl_url), critical=False)


@dataclass(frozen=True, slots=True)
class CaRequest:
    """What a CA certificate shall say; without issuer it is the root."""

    tier: Tier
    organization: str
    key: CertificatePublicKeyTypes
    not_before: datetime
    not_after: datetime
    serial: int
    crl_url: str
    generation: int = 1
    """From the second on it stands in the name: two CAs made on one day must not share one."""


CA_NAMES: Final = {
    Tier.ROOT: "root CA",
    Tier.DEVID: "DevID issuing CA",
    Tier.AK: "AK issuing CA",
    Tier.SERVER: "server CA",
}


def ca_builder(request: CaRequest, issuer: x509.Certificate | None) -> x509.CertificateBuilder:
    """Return the builder of a CA certificate; every CA below the root has path length 0."""
    number = f" no. {request.generation}" if request.generation > 1 else ""
    name = f"{request.organization} {CA_NAMES[request.tier]} {request.not_before:%Y-%m-%d}{number}"
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, request.organization),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(request.key)
        .serial_number(request.serial)
        .not_valid_before(request.not_before)
        .not_valid_after(request.not_after)
        .add_extension(
            x509.BasicConstraints(ca=True, path_length=None if request.tier is Tier.ROOT else 0), critical=True
        )
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(request.key), critical=False)
    )
    if issuer is not None:
        builder = builder.add_extension(_authority_key_id(issuer), critical=False)
        if request.crl_url:
            builder = builder.add_extension(_distribution_point(request.crl_url), critical=False)
    return builder


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What fleetd's own TLS certificate shall say."""

    names: tuple[x509.GeneralName, ...]
    key: CertificatePublicKeyTypes
    not_before: datetime
    not_after: datetime
    serial: int


def server_builder(request: ServerRequest, issuer: x509.Certificate) -> x509.CertificateBuilder:
    """Return the builder of a TLS server certificate."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleetd")])
    builder = _builder(
        subject,
        request.key,
        issuer,
        request.serial,
        request.not_before,
        min(request.not_after, issuer.not_valid_after_utc),
    )
    return (
        builder.add_extension(x509.SubjectAlternativeName(request.names), critical=False)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )


def hardware_serial(tpm: TpmIdentity) -> str:
    """Return the hwSerialNum of a TPM: manufacturer, EK authority key id and EK serial, joined by colons."""
    return f"{tpm.manufacturer}:{tpm.ek_key_id.hex()}:{tpm.ek_serial.hex()}"


def _builder(
    subject: x509.Name,
    key: CertificatePublicKeyTypes,
    issuer: x509.Certificate,
    serial: int,
    since: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(_authority_key_id(issuer), critical=False)
    )


def _serial_number(text: str) -> x509.NameAttribute[str]:
    """Return the serial number of a device, cut at the 64 octets that X.520 has room for.

    RFC 5280 wants a PrintableString, which cannot hold each serial that a maker prints (`_`, `#`): such a one is a UTF8String.
    """
    cut = text.encode()[:NAME_OCTETS].decode(errors="ignore")
    kind = _ASN1Type.PrintableString if set(cut) <= _PRINTABLE else _ASN1Type.UTF8String
    return x509.NameAttribute(NameOID.SERIAL_NUMBER, cut, kind)


def _alternative_name(request: DeviceRequest) -> x509.SubjectAlternativeName:
    tpm = request.tpm
    if request.kind is Kind.LAK:
        attributes = [
            x509.RelativeDistinguishedName([x509.NameAttribute(kind, value or "unknown")])
            for kind, value in (
                (TPM_MANUFACTURER, tpm.manufacturer),
                (TPM_MODEL, tpm.model),
                (TPM_VERSION, tpm.version),
            )
        ]
        return x509.SubjectAlternativeName([x509.DirectoryName(x509.Name(attributes))])
    serial = hardware_serial(tpm)
    module = _der(0x30, _der_oid(_TPM_HARDWARE) + _der(0x04, serial.encode()))
    permanent = _der(0x30, _der(0x0C, serial.encode()) + _der_oid(_TPM_HARDWARE))
    return x509.SubjectAlternativeName(
        [x509.OtherName(_HARDWARE_MODULE_NAME, module), x509.OtherName(_PERMANENT_IDENTIFIER, permanent)]
    )


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key_id(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    found = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _distribution_point(url: str) -> x509.CRLDistributionPoints:
    point = x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None)
    return x509.CRLDistributionPoints([point])


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    octets = (size.bit_length() + 7) // 8
    length = bytes([size]) if size < 0x80 else bytes([0x80 | octets]) + size.to_bytes(octets)
    return bytes([tag]) + length + content


def _der_oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    out = b""
    for arc in (40 * first + second, *rest):
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(arc & 0x7F | 0x80)
        out += bytes(reversed(digits))
    return _der(0x06, out)


def key_allowed(key: CertificatePublicKeyTypes) -> bool:
    """Tell whether a device's key is of a kind that is certified: P-256, P-384 or RSA-2048 and longer."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key.curve.name in {"secp256r1", "secp384r1"}
    return isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048
