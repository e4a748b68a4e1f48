"""Whether an endorsement key is one: its public area, its certificate and the chain above it.

Sources: TCG EK Credential Profile 2.x, annex B (templates L-1, L-2 and H-1 to H-7) and 3.2 (certificate); TPM 2.0 Part 2, 8.3.
"""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from fleetd.core.attestation.certificate import EKU_EK, Certificate, extract_certificate, parse_certificate
from fleetd.core.attestation.chain import MAX_SENT, Path, find_path
from fleetd.core.attestation.roca import has_roca_fingerprint
from fleetd.core.attestation.roots import Origin, TrustStore
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    MalformedStructure,
    Name,
    PublicArea,
    RsaParameters,
    parse_public,
)
from fleetd.core.findings import Finding, refuses
from fleetd.core.findings import endorsement as found
from fleetd.core.findings.softened import OnlyWarns

_STORAGE: Final = (
    Attribute.FIXED_TPM
    | Attribute.FIXED_PARENT
    | Attribute.SENSITIVE_DATA_ORIGIN
    | Attribute.ADMIN_WITH_POLICY
    | Attribute.RESTRICTED
    | Attribute.DECRYPT
)
_LOW: Final = frozenset({_STORAGE})
_HIGH: Final = frozenset({_STORAGE, _STORAGE | Attribute.USER_WITH_AUTH})
"""High-range templates set userWithAuth; the low-range ones do not."""

POLICIES: Final = {
    Algorithm.SHA256: frozenset(
        {
            bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa"),
            bytes.fromhex("ca3d0a99a2b93906f7a3342414efcfb3a385d44cd1fd459089d19b5071c0b7a0"),
        }
    ),
    Algorithm.SHA384: frozenset(
        {
            bytes.fromhex(
                "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12"
            )
        }
    ),
    Algorithm.SHA512: frozenset(
        {
            bytes.fromhex(
                "b8221ca69e8550a4914de3faa6a18c072cc01208073a928d5d66d59ef79e49a4"
                "29c41a6b269571d57edb25fbdb1838425608b413cd616a5f6db5b6071af99bea"
            )
        }
    ),
}
"""PolicyA (SHA-256) and PolicyB (SHA-256, SHA-384, SHA-512) of annex B.6.2 and B.6.3, by name algorithm."""

_NO_PATH: Final = Path((), None, ())


class CertificateRule(StrEnum):
    """Whether a class demands an EK certificate."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class ChainStatus(StrEnum):
    """What stands behind an EK, as NetBox shows it."""

    MANUFACTURER = "manufacturer"
    OWNER = "owner"
    NONE = "none"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class EndorsementRules:
    """What a class demands; an empty `manufacturers` means any."""

    certificate: CertificateRule = CertificateRule.REQUIRED
    manufacturers: tuple[str, ...] = ()
    """TCG vendor identifiers, such as `id:494E5458`, or their four letters, such as `INTC`."""
    allow_roca: bool = False


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """An EK as a machine offers it: TPMT_PUBLIC, and what its NV holds."""

    public: bytes
    certificate: bytes | None = None
    chain: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class EndorsementVerdict:
    """What was found out about an EK; `name` and `public` are None where the public area cannot be read."""

    public: PublicArea | None
    name: Name | None
    key_type: str
    public_hash: str
    """SHA-256 of the TPMT_PUBLIC, lower-case hex."""
    certificate: Certificate | None
    """The certificate of this very key; None also where the one that was offered is another key's."""
    manufacturer: str
    model: str
    version: str
    status: ChainStatus
    path: tuple[Certificate, ...]
    findings: tuple[Finding, ...]

    @property
    def accepted(self) -> bool:
        """Whether nothing refuses it."""
        return not refuses(self.findings)


def judge_endorsement_key(
    offered: OfferedKey, store: TrustStore, rules: EndorsementRules, now: datetime
) -> EndorsementVerdict:
    """Judge an offered EK: template first, then certificate, then chain. Raises nothing for any input."""
    findings: list[Finding] = []
    public: PublicArea | None = None
    try:
        public = parse_public(offered.public)
        findings += judge_public_area(public, rules)
    except MalformedStructure as error:
        findings.append(found.KeyMalformed("endorsement key", str(error)))
    certificate, path = None, _NO_PATH
    if offered.certificate:
        certificate, path, more = _judge_certificate(offered, public, store, now)
        findings += _without_root_tolerated(more) if rules.certificate is CertificateRule.OPTIONAL else more
    else:
        findings.append(
            found.NoCertificate() if rules.certificate is CertificateRule.OPTIONAL else found.CertificateMissing()
        )
    status = _status(certificate, path, findings)
    if certificate is not None and (public is None or not _certifies(certificate, public)):
        # Another TPM's certificate says nothing about this one, and must name it nowhere.
        certificate, path = None, _NO_PATH
    tpm = certificate.tpm if certificate else {}
    maker = vendor(tpm.get("manufacturer", ""))
    if rules.manufacturers and maker not in {vendor(allowed) for allowed in rules.manufacturers}:
        findings.append(found.ManufacturerNotAllowed(maker or "an unnamed manufacturer", rules.manufacturers))
    return EndorsementVerdict(
        public=public,
        name=public.name() if public else None,
        key_type=key_type(public) if public else "",
        public_hash=sha256(offered.public).hexdigest(),
        certificate=certificate,
        manufacturer=maker,
        model=tpm.get("model", ""),
        version=tpm.get("version", ""),
        status=status,
        path=path.certificates,
        findings=tuple(findings),
    )


def judge_public_area(public: PublicArea, rules: EndorsementRules = EndorsementRules()) -> tuple[Finding, ...]:
    """Return what keeps a public area from being a TCG endorsement key."""
    findings: list[Finding] = [found.EndorsementTemplateUnknown(problem) for problem in _template_problems(public)]
    try:
        key = public.to_public_key()
    except MalformedStructure as error:
        return (*findings, found.KeyMalformed("endorsement key", str(error)))
    if isinstance(key, rsa.RSAPublicKey) and not rules.allow_roca and has_roca_fingerprint(key.public_numbers().n):
        findings.append(found.FactorableKey())
    return tuple(findings)


def key_type(public: PublicArea) -> str:
    """Return the kind of key as NetBox shows it: `rsa-2048`, `p-256`, .."""
    if isinstance(public.parameters, RsaParameters):
        return f"rsa-{public.parameters.key_bits}"
    names: dict[int, str] = {Curve.P256: "p-256", Curve.P384: "p-384", Curve.P521: "p-521"}
    return names.get(public.parameters.curve, "ecc")


def vendor(text: str) -> str:
    """Return a TCG vendor identifier as its four letters: `id:494E5443` and `INTC` both give `INTC`."""
    if text.lower().startswith("id:"):
        try:
            letters = bytes.fromhex(text[3:]).rstrip(b"\0 ")
        except ValueError:
            return text
        return letters.decode() if letters.isalnum() else text
    return text.strip()


def _template_problems(public: PublicArea) -> Iterator[str]:
    policies = POLICIES[public.name_alg]
    if not any(hmac.compare_digest(public.auth_policy, policy) for policy in policies):
        yield "its policy is none of the TCG's"
    if public.attributes not in _HIGH:
        missing, surplus = _STORAGE & ~public.attributes, public.attributes & ~_STORAGE
        yield f"attributes missing {int(missing):#x}, not allowed {int(surplus):#x}"
    symmetric = public.parameters.symmetric
    if symmetric is None or symmetric.mode != Algorithm.CFB or symmetric.key_bits not in {128, 192, 256}:
        yield "it does not protect credentials with AES-CFB"
    if public.parameters.scheme.algorithm != Algorithm.NULL:
        yield "it has a scheme of its own"
    if isinstance(public.parameters, EccParameters) and public.parameters.kdf.algorithm != Algorithm.NULL:
        yield "it has a key derivation of its own"


def _judge_certificate(
    offered: OfferedKey, public: PublicArea | None, store: TrustStore, now: datetime
) -> tuple[Certificate | None, Path, list[Finding]]:
    findings: list[Finding] = []
    assert offered.certificate is not None
    try:
        certificate = parse_certificate(extract_certificate(offered.certificate))
        certificate.public_key  # noqa: B018 - raises for a key that cannot be read
    except MalformedStructure as error:
        return None, _NO_PATH, [found.CertificateMalformed("the endorsement key", str(error))]
    if public is not None and not _certifies(certificate, public):
        findings.append(found.CertificateForOtherKey())
    path = find_path(certificate, store, sent_certificates(offered.chain), now)
    return certificate, path, [*findings, *_certificate_findings(certificate), *path.findings]


def judge_certificate_alone(
    certificate: Certificate, store: TrustStore, now: datetime
) -> tuple[tuple[Certificate, ...], tuple[Finding, ...]]:
    """Judge an EK certificate without its public area; return its path and the findings."""
    path = find_path(certificate, store, (), now)
    return path.certificates, (*_certified_key(certificate), *_certificate_findings(certificate), *path.findings)


def _certified_key(certificate: Certificate) -> Iterator[Finding]:
    """Yield what is wrong with the key itself, where no public area shows it."""
    try:
        key = certificate.public_key
    except MalformedStructure as error:
        yield found.KeyMalformed("endorsement key", str(error))
        return
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        if key.key_size < 2048 or numbers.n % 2 == 0 or numbers.e < 65537:
            yield found.KeyMalformed("endorsement key", f"RSA of {key.key_size} bits with exponent {numbers.e}")
        if has_roca_fingerprint(numbers.n):
            yield found.FactorableKey()
    elif key.curve.name not in {curve.cryptography().name for curve in Curve}:
        yield found.KeyMalformed("endorsement key", f"no TPM has keys on curve {key.curve.name}")


def _certificate_findings(certificate: Certificate) -> list[Finding]:
    findings: list[Finding] = [found.CertificateUnfit(problem) for problem in _profile_problems(certificate)]
    if not certificate.extended_key_usage:
        findings.append(found.ExtendedKeyUsageAbsent())
    if not certificate.tpm.get("manufacturer"):
        findings.append(found.TpmNotNamed())
    return findings


def sent_certificates(chain: tuple[bytes, ...]) -> tuple[Certificate, ...]:
    """Return what can be read of the certificates that a machine sent; one NV index may hold several in a row."""
    parsed: list[Certificate] = []
    for blob in chain[:MAX_SENT]:
        rest = blob
        while rest and rest[0] == 0x30 and len(parsed) < MAX_SENT:
            try:
                raw = extract_certificate(rest)
                parsed.append(parse_certificate(raw))
            except MalformedStructure:
                break
            rest = rest[len(raw) :]
    return tuple(parsed)


def _profile_problems(certificate: Certificate) -> Iterator[str]:
    if certificate.is_ca:
        yield "it is a CA's"
    if certificate.extended_key_usage and EKU_EK not in certificate.extended_key_usage:
        yield f"its extended key usage is {', '.join(certificate.extended_key_usage)}, not {EKU_EK}"
    if certificate.unknown_critical:
        yield f"it has critical extensions that are not understood: {', '.join(certificate.unknown_critical)}"


def _without_root_tolerated(findings: list[Finding]) -> list[Finding]:
    """Let a missing root only warn, for classes that take TPMs without a certificate.

    A machine cannot take the certificate out of its TPM, and whoever wants to deceive would leave it out.
    """
    return [OnlyWarns(each) if isinstance(each, found.ChainIncomplete) else each for each in findings]


def certificate_of(public: PublicArea, stored: bytes) -> Certificate | None:
    """Return the certificate in what an NV index holds where it certifies exactly this key, else None.

    Only such a certificate may stand for the key: certificates are public, and anybody can send another TPM's.
    """
    try:
        certificate = parse_certificate(extract_certificate(stored))
    except MalformedStructure:
        return None
    return certificate if _certifies(certificate, public) else None


def _certifies(certificate: Certificate, public: PublicArea) -> bool:
    try:
        key, certified = public.to_public_key(), certificate.public_key
    except MalformedStructure:
        return False
    return key.public_numbers() == certified.public_numbers()


def _status(certificate: Certificate | None, path: Path, findings: list[Finding]) -> ChainStatus:
    if certificate is None:
        return ChainStatus.NONE
    other = any(isinstance(finding, found.CertificateForOtherKey | found.CertificateUnfit) for finding in findings)
    if path.origin is None or other:
        return ChainStatus.UNVERIFIED
    return ChainStatus.MANUFACTURER if path.origin is Origin.MANUFACTURER else ChainStatus.OWNER
