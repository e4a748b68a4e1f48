"""Findings about whose TPM it is: endorsement keys, approvals and the ledger."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity

_REBIND = "If the board was replaced on purpose, follow the runbook: `fleetd ek rebind` on the service host."


@dataclass(frozen=True, slots=True)
class ActivationFailed(Finding):
    """The machine did not show that its TPM holds the endorsement keys and the LAK."""

    code: ClassVar[str] = "activation-failed"

    @override
    def sentence(self) -> str:
        return "The TPM did not activate the credentials for its endorsement keys and this LAK."

    @override
    def next_step(self) -> str:
        return "Let the machine enroll again; if it happens twice, treat what answers there as not this machine."


@dataclass(frozen=True, slots=True)
class KeyNotApproved(Finding):
    """Nobody has approved the endorsement key yet."""

    fingerprint: str

    code: ClassVar[str] = "ek-waits"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return f"The endorsement key {self.fingerprint} is proven and waits for a person to approve it."

    @override
    def next_step(self) -> str:
        return "Compare the fingerprint with the machine's console and approve the key in NetBox."


@dataclass(frozen=True, slots=True)
class KeyRejected(Finding):
    """A person said in NetBox that the endorsement key is none of the machine's."""

    fingerprint: str

    code: ClassVar[str] = "ek-rejected"

    @override
    def sentence(self) -> str:
        return f"The endorsement key {self.fingerprint} was rejected in NetBox."

    @override
    def next_step(self) -> str:
        return (
            "Find out which machine answers there; where it is the right one after all, approve the key and ask again."
        )


@dataclass(frozen=True, slots=True)
class KeyOfOtherMachine(Finding):
    """A bound endorsement key is declared for another machine."""

    fingerprint: str
    bound: int
    declared: int

    code: ClassVar[str] = "ek-moved"

    @override
    def sentence(self) -> str:
        return (
            f"The endorsement key {self.fingerprint} is bound to machine {self.bound}, "
            f"but NetBox declares it for machine {self.declared}."
        )

    @override
    def next_step(self) -> str:
        return _REBIND


@dataclass(frozen=True, slots=True)
class SecondKeyOfMachine(Finding):
    """A machine that has its endorsement key was given another one."""

    fingerprint: str
    machine: int

    code: ClassVar[str] = "ek-second"

    @override
    def sentence(self) -> str:
        return (
            f"Machine {self.machine} is bound to another TPM than the one with the endorsement key {self.fingerprint}."
        )

    @override
    def next_step(self) -> str:
        return _REBIND


@dataclass(frozen=True, slots=True)
class KeysOfTwoMachines(Finding):
    """The endorsement keys of one TPM are approved for different machines."""

    machines: tuple[int, ...]

    code: ClassVar[str] = "ek-ambiguous"

    @override
    def sentence(self) -> str:
        return f"The endorsement keys of this TPM belong to different machines: {', '.join(map(str, self.machines))}."

    @override
    def next_step(self) -> str:
        return "Reject the keys that belong to none of them in NetBox."


@dataclass(frozen=True, slots=True)
class KeyWithdrawn(Finding):
    """The endorsement key was approved once and is not any more."""

    fingerprint: str
    status: str

    code: ClassVar[str] = "ek-withdrawn"

    @override
    def sentence(self) -> str:
        return f"The endorsement key {self.fingerprint} is no longer approved in NetBox ({self.status})."

    @override
    def next_step(self) -> str:
        return "Approve the key again in NetBox if the machine is to come back."


@dataclass(frozen=True, slots=True)
class TooManyWaitingKeys(Finding):
    """So many unknown keys wait already that this one is not recorded."""

    code: ClassVar[str] = "ek-too-many-waiting"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "Too many unknown endorsement keys wait for a person; this one was not recorded."

    @override
    def next_step(self) -> str:
        return "Approve or reject the waiting keys in NetBox; the machine asks again by itself."


@dataclass(frozen=True, slots=True)
class MachineUnknown(Finding):
    """The key is bound, but nothing is declared of its machine."""

    machine: int

    code: ClassVar[str] = "machine-not-declared"

    @override
    def sentence(self) -> str:
        return f"Machine {self.machine} is not declared in NetBox, or its class is not known or not installable."

    @override
    def next_step(self) -> str:
        return "Declare the machine with a known class in NetBox."


@dataclass(frozen=True, slots=True)
class MachineQuarantined(Finding):
    """The machine is quarantined: it gets nothing."""

    reason: str

    code: ClassVar[str] = "machine-quarantined"

    @override
    def sentence(self) -> str:
        return f"The machine is quarantined: {self.reason}."

    @override
    def next_step(self) -> str:
        return "Release the machine in NetBox with a reason; it attests afresh then."


@dataclass(frozen=True, slots=True)
class FactContradicts(Finding):
    """What the machine claims of itself contradicts what is declared or was seen before."""

    fact: str

    code: ClassVar[str] = "fact-contradicts"

    @override
    def sentence(self) -> str:
        return f"The machine's {self.fact} is not the one that is known of it."

    @override
    def next_step(self) -> str:
        return f"Compare the {self.fact} on the machine's page with the machine itself."


@dataclass(frozen=True, slots=True)
class CertificatesNotIssued(Finding):
    """The verdict is good, but the authority could not issue."""

    problem: str

    code: ClassVar[str] = "certificates-not-issued"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"No certificates were issued: {self.problem}."

    @override
    def next_step(self) -> str:
        return "See `fleetd ca show`; the machine asks again by itself."
