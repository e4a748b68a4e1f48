"""Findings about what a TPM signed: the quote and the certification of the LDevID."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity

_AGAIN = "Let the machine attest again; if it happens twice, look at the machine before trusting it."


class Attested(StrEnum):
    """Which of the two signed structures a finding is about."""

    QUOTE = "quote"
    CERTIFY = "certification of the LDevID"


@dataclass(frozen=True, slots=True)
class AttestMalformed(Finding):
    """The structure cannot be read."""

    about: Attested
    problem: str

    code: ClassVar[str] = "attest-malformed"

    @override
    def sentence(self) -> str:
        return f"The {self.about} cannot be read: {self.problem}."

    @override
    def next_step(self) -> str:
        return "Check that the machine runs an unmodified client; a TPM never sends such bytes."


@dataclass(frozen=True, slots=True)
class NotMadeByTpm(Finding):
    """The structure lacks the magic number that only a TPM puts there."""

    about: Attested

    code: ClassVar[str] = "attest-magic"

    @override
    def sentence(self) -> str:
        return f"The {self.about} was not made by a TPM: it does not begin with TPM_GENERATED."

    @override
    def next_step(self) -> str:
        return "Treat the machine as not trustworthy: something else than its TPM made the evidence."


@dataclass(frozen=True, slots=True)
class WrongAttestType(Finding):
    """The TPM attested something else than was asked."""

    about: Attested
    seen: int

    code: ClassVar[str] = "attest-type"

    @override
    def sentence(self) -> str:
        return f"The {self.about} is an attestation of another type, 0x{self.seen:04x}."

    @override
    def next_step(self) -> str:
        return _AGAIN


@dataclass(frozen=True, slots=True)
class NonceMismatch(Finding):
    """The structure does not answer this challenge: it is old, or of another machine or message."""

    about: Attested

    code: ClassVar[str] = "nonce-mismatch"

    @override
    def sentence(self) -> str:
        return f"The {self.about} does not answer this challenge and these claims."

    @override
    def next_step(self) -> str:
        return _AGAIN


@dataclass(frozen=True, slots=True)
class SignerMismatch(Finding):
    """The signer is not the LAK as a primary key of the endorsement hierarchy."""

    about: Attested

    code: ClassVar[str] = "attest-signer"

    @override
    def sentence(self) -> str:
        return f"The {self.about} was not signed by the LAK as a primary key of the endorsement hierarchy."

    @override
    def next_step(self) -> str:
        return "Use the client of fleetd: it makes the LAK in the endorsement hierarchy."


@dataclass(frozen=True, slots=True)
class SelectionMismatch(Finding):
    """The quote covers other PCRs than were asked for."""

    asked: str
    seen: str

    code: ClassVar[str] = "pcr-selection"

    @override
    def sentence(self) -> str:
        return f"The quote covers PCRs {self.seen}, not {self.asked} as asked."

    @override
    def next_step(self) -> str:
        return "Check in the firmware setup that the TPM has the PCR bank of the class switched on."


@dataclass(frozen=True, slots=True)
class PcrValuesMissing(Finding):
    """The machine did not send the value of each PCR that it quoted, or sent one of a wrong size."""

    problem: str

    code: ClassVar[str] = "pcr-values"

    @override
    def sentence(self) -> str:
        return f"The PCR values that were sent do not fit the quote: {self.problem}."

    @override
    def next_step(self) -> str:
        return _AGAIN


@dataclass(frozen=True, slots=True)
class PcrDigestMismatch(Finding):
    """The PCR values that were sent are not those that the TPM quoted."""

    code: ClassVar[str] = "pcr-digest"

    @override
    def sentence(self) -> str:
        return "The PCR values that were sent are not those that the TPM signed."

    @override
    def next_step(self) -> str:
        return _AGAIN


@dataclass(frozen=True, slots=True)
class SignatureMalformed(Finding):
    """The signature cannot be read, or is of a kind that the key cannot make."""

    about: Attested
    problem: str

    code: ClassVar[str] = "signature-malformed"

    @override
    def sentence(self) -> str:
        return f"The signature of the {self.about} cannot be used: {self.problem}."

    @override
    def next_step(self) -> str:
        return "Check that the machine runs an unmodified client; a TPM never sends such a signature."


@dataclass(frozen=True, slots=True)
class SignatureInvalid(Finding):
    """The signature is not of this key over these bytes."""

    about: Attested

    code: ClassVar[str] = "signature-invalid"

    @override
    def sentence(self) -> str:
        return f"The signature of the {self.about} is not valid for the LAK."

    @override
    def next_step(self) -> str:
        return "Treat the machine as not trustworthy until a fresh attestation passes."


@dataclass(frozen=True, slots=True)
class WeakHash(Finding):
    """The signature uses a hash that is too weak to rely on."""

    about: Attested
    hash: str

    code: ClassVar[str] = "signature-weak-hash"

    @override
    def sentence(self) -> str:
        return f"The signature of the {self.about} uses {self.hash}, which is too weak."

    @override
    def next_step(self) -> str:
        return "Use the client of fleetd: it makes a LAK that signs with SHA-256 or better."


@dataclass(frozen=True, slots=True)
class KeyForm(Finding):
    """A key of the machine is not of the form that makes its signatures mean something."""

    key: str
    problem: str

    code: ClassVar[str] = "key-form"

    @override
    def sentence(self) -> str:
        return f"The {self.key} is not a key that can be trusted here: {self.problem}."

    @override
    def next_step(self) -> str:
        return "Use the client of fleetd: it makes keys that are fixed to one TPM, on P-256, P-384 or RSA-2048."


@dataclass(frozen=True, slots=True)
class KeyUnusable(Finding):
    """The public key is not one that signatures can be checked with."""

    about: Attested
    problem: str

    code: ClassVar[str] = "attest-key-unusable"

    @override
    def sentence(self) -> str:
        return f"The key that signed the {self.about} cannot be used: {self.problem}."

    @override
    def next_step(self) -> str:
        return "Use the client of fleetd: it makes a LAK on P-256, P-384 or RSA-2048."


@dataclass(frozen=True, slots=True)
class CertifiedAnotherKey(Finding):
    """The LAK certified another object than the LDevID that was sent."""

    code: ClassVar[str] = "certify-name"

    @override
    def sentence(self) -> str:
        return "The LAK certified another key than the LDevID that was sent."

    @override
    def next_step(self) -> str:
        return _AGAIN


@dataclass(frozen=True, slots=True)
class ClockNotSafe(Finding):
    """The TPM says that its clock may have gone back."""

    code: ClassVar[str] = "tpm-clock-unsafe"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return "The TPM reports that its clock may have been set back, as after an unclean loss of power."

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done; the clock becomes safe again by itself."


@dataclass(frozen=True, slots=True)
class NotHeldAgainst(Finding):
    """Something was not given, so the quote was not held against it."""

    what: str

    code: ClassVar[str] = "quote-not-held-against"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return f"The quote was not held against {self.what}, as none was given."

    @override
    def next_step(self) -> str:
        return "Give it as well to have the quote checked in full."
