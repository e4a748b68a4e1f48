"""Findings about endorsement keys, their certificates and their chains."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity

_LOOK = "Do not approve this machine before you know why: such a key comes from no genuine TPM."
_ROOTS = "Download the manufacturer's CA certificates and run `fleetd ek-roots import`, or set ek_certificate to optional for the class."
_CLASS = "Change the class's attestation section if you want to allow it, or use another machine."


def listed(items: tuple[str, ...]) -> str:
    """Return the items as a person would list them."""
    return ", ".join(items) if items else "none"


@dataclass(frozen=True, slots=True)
class KeyMalformed(Finding):
    """A public area cannot be read, or is no usable key."""

    role: str
    problem: str

    code: ClassVar[str] = "key-malformed"

    @override
    def sentence(self) -> str:
        return f"The {self.role} is no usable key: {self.problem}."

    @override
    def next_step(self) -> str:
        return _LOOK


@dataclass(frozen=True, slots=True)
class EndorsementTemplateUnknown(Finding):
    """An EK follows none of the TCG templates."""

    problem: str

    code: ClassVar[str] = "ek-template"

    @override
    def sentence(self) -> str:
        return f"The endorsement key follows no TCG template: {self.problem}."

    @override
    def next_step(self) -> str:
        return _LOOK


@dataclass(frozen=True, slots=True)
class CertificateMissing(Finding):
    """The class demands an EK certificate and the machine has none."""

    code: ClassVar[str] = "ek-certificate-missing"

    @override
    def sentence(self) -> str:
        return "The TPM offers no certificate for its endorsement key, and the class demands one."

    @override
    def next_step(self) -> str:
        return "Declare the certificate that the manufacturer supplies, or set ek_certificate to optional and approve the key's hash yourself."


@dataclass(frozen=True, slots=True)
class CertificateMalformed(Finding):
    """A certificate cannot be read."""

    whose: str
    problem: str

    code: ClassVar[str] = "certificate-malformed"

    @override
    def sentence(self) -> str:
        return f"The certificate of {self.whose} cannot be read: {self.problem}."

    @override
    def next_step(self) -> str:
        return "If the machine is genuine, report its certificate as a quirk; until then the class must allow keys without certificate."


@dataclass(frozen=True, slots=True)
class CertificateForOtherKey(Finding):
    """The certificate does not certify this EK."""

    code: ClassVar[str] = "ek-certificate-key"

    @override
    def sentence(self) -> str:
        return "The certificate that the machine shows belongs to another key than its endorsement key."

    @override
    def next_step(self) -> str:
        return _LOOK


@dataclass(frozen=True, slots=True)
class CertificateUnfit(Finding):
    """An EK certificate breaks a rule of its profile."""

    problem: str

    code: ClassVar[str] = "ek-certificate-profile"

    @override
    def sentence(self) -> str:
        return f"The certificate is none for an endorsement key: {self.problem}."

    @override
    def next_step(self) -> str:
        return _LOOK


@dataclass(frozen=True, slots=True)
class ExtendedKeyUsageAbsent(Finding):
    """The certificate names no extended key usage; some manufacturers leave it out."""

    code: ClassVar[str] = "ek-certificate-eku-absent"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "The endorsement certificate does not say that it is one (extended key usage 2.23.133.8.1 is absent)."

    @override
    def next_step(self) -> str:
        return "Nothing: some manufacturers leave it out. The chain decides."


@dataclass(frozen=True, slots=True)
class TpmNotNamed(Finding):
    """The certificate names no TPM manufacturer; those of some virtual TPMs name their instance instead."""

    code: ClassVar[str] = "ek-certificate-tpm-unnamed"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "The endorsement certificate names no TPM manufacturer, model and version."

    @override
    def next_step(self) -> str:
        return "Nothing, if the chain ends where you expect; a class that narrows the manufacturers refuses it."


@dataclass(frozen=True, slots=True)
class CertificateNotInForce(Finding):
    """A certificate is expired or not valid yet."""

    whose: str
    since: str
    until: str

    code: ClassVar[str] = "certificate-not-in-force"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"The certificate of {self.whose} is in force from {self.since} to {self.until} only."

    @override
    def next_step(self) -> str:
        return "Nothing for an endorsement key: it outlives its certificate. Check the clock of fleetd's host if the dates surprise you."


@dataclass(frozen=True, slots=True)
class ChainIncomplete(Finding):
    """No path leads from the certificate to a trusted key."""

    reached: str
    wanted: str

    code: ClassVar[str] = "ek-chain-incomplete"

    @override
    def sentence(self) -> str:
        return (
            f"No trusted root was reached: the path ends at {self.reached}, whose issuer {self.wanted} is not at hand."
        )

    @override
    def next_step(self) -> str:
        return _ROOTS


@dataclass(frozen=True, slots=True)
class ChainRefused(Finding):
    """A link of the chain breaks a rule."""

    link: str
    problem: str

    code: ClassVar[str] = "ek-chain-refused"

    @override
    def sentence(self) -> str:
        return f"The chain breaks at {self.link}: {self.problem}."

    @override
    def next_step(self) -> str:
        return _LOOK


@dataclass(frozen=True, slots=True)
class WeakLink(Finding):
    """A certificate of the path is signed with SHA-1; an EK's own only where it is dated before 2020."""

    link: str

    code: ClassVar[str] = "ek-chain-sha1"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"The certificate of {self.link} is signed with SHA-1, as old ones of some manufacturers are."

    @override
    def next_step(self) -> str:
        return "Nothing, if the TPM is as old as its certificate: a later one that is signed so would be refused."


@dataclass(frozen=True, slots=True)
class NotAManufacturer(Finding):
    """The chain ends at a root that the owner added."""

    root: str

    code: ClassVar[str] = "ek-root-owner"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return f"The chain ends at {self.root}, a root that you added, not a TPM manufacturer."

    @override
    def next_step(self) -> str:
        return "Nothing, if you meant to trust it: virtual and development TPMs come from such roots."


@dataclass(frozen=True, slots=True)
class NoCertificate(Finding):
    """There is no certificate, and the class allows that."""

    code: ClassVar[str] = "ek-certificate-none"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "The TPM offers no certificate: nothing but your approval says that this is a genuine TPM."

    @override
    def next_step(self) -> str:
        return "Compare the fingerprint on the machine's console with the one shown here before approving."


@dataclass(frozen=True, slots=True)
class ManufacturerNotAllowed(Finding):
    """The class narrows the manufacturers, and this is another one."""

    seen: str
    allowed: tuple[str, ...]

    code: ClassVar[str] = "ek-manufacturer"

    @override
    def sentence(self) -> str:
        return f"The TPM is made by {self.seen}; the class allows {listed(self.allowed)}."

    @override
    def next_step(self) -> str:
        return _CLASS


@dataclass(frozen=True, slots=True)
class FactorableKey(Finding):
    """The modulus bears the fingerprint of the broken Infineon key generator (CVE-2017-15361)."""

    code: ClassVar[str] = "ek-roca"

    @override
    def sentence(self) -> str:
        return "The endorsement key was made by the broken Infineon generator (ROCA, CVE-2017-15361): its private half can be computed."

    @override
    def next_step(self) -> str:
        return "Update the TPM's firmware, or use a machine without this flaw; a class can allow it at your own risk."


@dataclass(frozen=True, slots=True)
class CertificateRevoked(Finding):
    """A CRL that the owner supplied lists a certificate of the chain."""

    whose: str

    code: ClassVar[str] = "ek-certificate-revoked"

    @override
    def sentence(self) -> str:
        return f"The certificate of {self.whose} is revoked by its issuer."

    @override
    def next_step(self) -> str:
        return _LOOK


@dataclass(frozen=True, slots=True)
class RevocationListStale(Finding):
    """A CRL that the owner supplied is older than its nextUpdate."""

    issuer: str
    due: str

    code: ClassVar[str] = "ek-crl-stale"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"The revocation list of {self.issuer} should have been renewed by {self.due}."

    @override
    def next_step(self) -> str:
        return "Download the manufacturer's current revocation list into the roots directory."
