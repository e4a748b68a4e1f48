"""Endorsement keys of one TPM, judged and ready to be recorded."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetd.app.exchange import Exchange
from fleetd.app.messages import EndorsementKey
from fleetd.core.attestation.endorsement import (
    CertificateRule,
    ChainStatus,
    EndorsementRules,
    EndorsementVerdict,
    OfferedKey,
    judge_endorsement_key,
)
from fleetd.core.attestation.policy import EkCertificate
from fleetd.core.attestation.structures import PublicArea
from fleetd.core.classes import MachineClass
from fleetd.core.findings import Finding, Severity
from fleetd.core.findings.softened import OnlyWarns
from fleetd.core.names import MachineId
from fleetd.store.endorsement_keys import ProvenKey

_LENIENT = EndorsementRules(certificate=CertificateRule.OPTIONAL)
_RANKS = {
    ChainStatus.MANUFACTURER: 4,
    ChainStatus.OWNER: 3,
    ChainStatus.UNVERIFIED: 1,
    ChainStatus.NONE: 0,
}
_MATCH = 10


@dataclass(frozen=True, slots=True)
class JudgedKey:
    """One EK with what was found out about it."""

    public: PublicArea
    verdict: EndorsementVerdict

    @property
    def certificate(self) -> bytes | None:
        """The EK certificate, DER without what manufacturers put around it in NV."""
        return self.verdict.certificate.raw if self.verdict.certificate else None

    @property
    def public_hash(self) -> str:
        """SHA-256 of the TPMT_PUBLIC, hex."""
        return self.verdict.public_hash

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What speaks about this key."""
        return self.verdict.findings

    def as_proven(
        self,
        *,
        address: str = "",
        rank: int = 0,
        candidates: Sequence[MachineId] = (),
        extra: Sequence[Finding] = (),
    ) -> ProvenKey:
        """Return the key as the ledger records it."""
        verdict = self.verdict
        return ProvenKey(
            public_hash=verdict.public_hash,
            public=self.public.raw,
            name=self.public.name(),
            key_type=verdict.key_type,
            certificate=self.certificate,
            certificate_sha256=verdict.certificate.fingerprint if verdict.certificate else "",
            manufacturer=verdict.manufacturer,
            model=verdict.model,
            version=verdict.version,
            chain_status=verdict.status.value,
            findings=tuple(finding.as_dict() for finding in (*verdict.findings, *extra)),
            candidates=tuple(candidates),
            rank=rank,
            address=address,
        )


def judge_keys(
    exchange: Exchange,
    offered: Sequence[EndorsementKey],
    publics: Sequence[PublicArea],
    machine_class: MachineClass | None,
) -> list[JudgedKey]:
    """Judge all keys of the TPM by the class's rules, or leniently where nobody knows the machine yet."""
    rules, now = rules_of(machine_class), exchange.clock.now()
    store = exchange.roots()
    return [
        JudgedKey(
            public,
            judge_endorsement_key(OfferedKey(key.public, key.certificate, tuple(key.chain)), store, rules, now),
        )
        for key, public in zip(offered, publics, strict=True)
    ]


def rules_of(machine_class: MachineClass | None) -> EndorsementRules:
    """Return what the class demands of EKs."""
    if machine_class is None or machine_class.attestation is None:
        return _LENIENT
    required = machine_class.attestation.ek_certificate is EkCertificate.REQUIRED
    return EndorsementRules(
        certificate=CertificateRule.REQUIRED if required else CertificateRule.OPTIONAL,
        manufacturers=machine_class.endorsement.manufacturers,
        allow_roca=machine_class.endorsement.allow_roca,
    )


def key_findings(keys: Sequence[JudgedKey]) -> tuple[Finding, ...]:
    """Return what speaks about the TPM's keys together.

    All of them are proven to be in one TPM, so one accepted key vouches for it; what refuses the others only warns then.
    """
    if not any(key.verdict.accepted for key in keys):
        return tuple(finding for key in keys for finding in key.findings)
    found: list[Finding] = []
    for key in keys:
        found += [OnlyWarns(finding) if finding.severity is Severity.REFUSES else finding for finding in key.findings]
    return tuple(dict.fromkeys(found))


def best_key(keys: Sequence[JudgedKey]) -> JudgedKey:
    """Return the key that vouches for the TPM: accepted first, then by what stands behind its certificate."""
    return max(keys, key=lambda key: (key.verdict.accepted, _RANKS[key.verdict.status]))


def pending_rank(key: JudgedKey, candidates: Sequence[MachineId]) -> int:
    """Return how much a waiting key deserves a person's look: chain first, then whether it fits a waiting machine."""
    return _RANKS[key.verdict.status] + (_MATCH if candidates else 0)
