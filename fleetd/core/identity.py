"""Which machine a proven TPM is: from its endorsement keys alone, never from what it claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleetd.core.findings import Finding
from fleetd.core.findings.identity import (
    KeyOfOtherMachine,
    KeyRejected,
    KeysOfTwoMachines,
    KeyWithdrawn,
    SecondKeyOfMachine,
)
from fleetd.core.names import MachineId


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """An endorsement key that was proven."""

    public_hash: str
    certificate_sha256: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredBinding:
    """What NetBox says of a key: for which machine, and whether it is approved."""

    machine: MachineId
    public_hash: str
    certificate_sha256: str
    status: str

    def means(self, key: OfferedKey) -> bool:
        """Tell whether the declaration is about this key: by public hash, or by certificate where only that is known."""
        if self.public_hash:
            return self.public_hash == key.public_hash
        return bool(self.certificate_sha256) and self.certificate_sha256 == key.certificate_sha256


@dataclass(frozen=True, slots=True)
class Identity:
    """Who it is; `machine` is None while the keys are unknown or contradict."""

    machine: MachineId | None
    findings: tuple[Finding, ...] = ()
    to_bind: tuple[str, ...] = ()
    """Hashes of approved keys that the ledger does not bind yet."""
    about: MachineId | None = None
    """The machine whose owner should read the findings."""

    @property
    def contradicts(self) -> bool:
        """Whether ledger and NetBox disagree, so that only a person can help."""
        return any(not isinstance(finding, KeyWithdrawn | KeyRejected) for finding in self.findings)

    @property
    def rejected(self) -> bool:
        """Whether a person has said no to these keys, and there is nothing else to say of them."""
        return bool(self.findings) and all(isinstance(finding, KeyRejected) for finding in self.findings)


def identify(
    offered: Iterable[OfferedKey],
    ledger: Mapping[str, MachineId],
    declared: Iterable[DeclaredBinding],
    bound: Mapping[MachineId, frozenset[str]],
) -> Identity:
    """Say which machine the keys of one TPM belong to.

    `ledger` holds the bound ones among the offered keys, `declared` what NetBox says of them, and `bound` all keys that
    the ledger binds to each machine in question. Ledger and NetBox must agree; where they do not, nobody is identified.
    """
    keys = tuple(offered)
    says = tuple(declared)
    findings: list[Finding] = []
    approved: dict[str, MachineId] = {}
    for key in keys:
        about = [binding for binding in says if binding.means(key)]
        machines = {binding.machine for binding in about if binding.status == "approved"}
        if len(machines) == 1:
            approved[key.public_hash] = machines.pop()
        elif machines:
            findings.append(KeysOfTwoMachines(tuple(sorted(machines))))
        elif key.public_hash in ledger:
            status = about[0].status if about else "not declared"
            findings.append(KeyWithdrawn(shown(key.public_hash), status))
    findings += _contradictions(approved, ledger, bound)
    candidates = set(approved.values())
    if len(candidates) > 1:
        findings.append(KeysOfTwoMachines(tuple(sorted(candidates))))
    withdrawn_only = bool(findings) and all(isinstance(item, KeyWithdrawn) for item in findings)
    if not candidates and not findings:
        return _undecided(keys, says)
    if len(candidates) != 1 or (findings and not withdrawn_only):
        concerned = candidates or set(ledger.values())
        return Identity(None, tuple(findings), about=min(concerned) if len(concerned) == 1 else None)
    (machine,) = candidates
    return Identity(machine, (), tuple(hash_ for hash_ in approved if hash_ not in ledger))


def _undecided(keys: Iterable[OfferedKey], says: Iterable[DeclaredBinding]) -> Identity:
    """Return who keys are that nothing is known of, or that a person has rejected, every one that NetBox knows."""
    known = [(key, binding) for key in keys for binding in says if binding.means(key)]
    if not known or any(binding.status != "rejected" for _, binding in known):
        return Identity(None)
    hashes = dict.fromkeys(key.public_hash for key, _ in known)
    machines = {binding.machine for _, binding in known}
    findings = tuple(KeyRejected(shown(public_hash)) for public_hash in hashes)
    return Identity(None, findings, about=min(machines) if len(machines) == 1 else None)


def _contradictions(
    approved: Mapping[str, MachineId], ledger: Mapping[str, MachineId], bound: Mapping[MachineId, frozenset[str]]
) -> list[Finding]:
    findings: list[Finding] = []
    for public_hash, machine in approved.items():
        holder = ledger.get(public_hash)
        if holder is not None and holder != machine:
            findings.append(KeyOfOtherMachine(shown(public_hash), holder, machine))
        elif holder is None and bound.get(machine) and not bound[machine] & set(ledger):
            # None of the keys that the ledger has for this machine is in this TPM.
            findings.append(SecondKeyOfMachine(shown(public_hash), machine))
    return findings


def shown(public_hash: str) -> str:
    """Return the fingerprint as console and NetBox show it: groups of four, enough to compare by eye."""
    return " ".join(public_hash[i : i + 4] for i in range(0, 32, 4))
