"""An enrollment whose activation was proven, and the machine that it is about."""

import hmac
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.challenge import parsed_keys
from fleetd.app.exchange import Exchange
from fleetd.app.facts import machine_facts
from fleetd.app.messages import Enroll
from fleetd.app.pcrs import pcr_values
from fleetd.app.refusals import CallRefusedError, malformed
from fleetd.core.attestation.policy import AttestationPolicy
from fleetd.core.attestation.quote import RawCertify, RawQuote
from fleetd.core.attestation.structures import PublicArea
from fleetd.core.attestation.transcript import EnrollmentClaims, Transcript, activation_proof
from fleetd.core.attestation.verdict import BootWeight, EnrollmentEvidence
from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.exchange import tokens
from fleetd.core.findings.identity import ActivationFailed
from fleetd.core.identity import Identity
from fleetd.core.names import MachineId


@dataclass(frozen=True, slots=True)
class Attempt:
    """One enrollment whose activation was proven."""

    ask: Enroll
    address: str
    challenge: tokens.Challenge
    transcript: Transcript
    publics: tuple[PublicArea, ...]
    facts: dict[str, Any]

    @property
    def secrets(self) -> dict[bytes, bytes]:
        """The activation secrets by EK Name."""
        return {item.ek_name: item.secret for item in self.challenge.credentials}

    @property
    def evidence(self) -> EnrollmentEvidence:
        """What the verdict is made from."""
        ask = self.ask
        return EnrollmentEvidence(
            lak_public=ask.lak,
            ldevid_public=ask.ldevid.public,
            quote=RawQuote(ask.quote.attest),
            quote_signature=ask.quote.signature,
            certify=RawCertify(ask.certify.attest),
            certify_signature=ask.certify.signature,
            pcrs=pcr_values(ask.pcrs),
            log=ask.log,
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose enrollment it is."""

    machine: MachineId
    declaration: Declaration
    machine_class: MachineClass
    policy: AttestationPolicy
    run: runs.OpenRun | None

    @property
    def weight(self) -> BootWeight:
        """What the boot counts: wipe and retire only need to know which machine it is."""
        return BootWeight.REFUSES if self.run is None or self.run.kind.issues else BootWeight.WARNS


def activated(ask: Enroll, challenge: tokens.Challenge, address: str) -> Attempt:
    """Check that one TPM holds every challenged EK and the LAK; nothing else of the request is believed before.

    Raises CallRefusedError.
    """
    publics = tuple(parsed_keys(ask.eks))
    names = {public.name() for public in publics}
    if names != {item.ek_name for item in challenge.credentials}:
        raise malformed("eks: not those that were challenged")
    transcript = EnrollmentClaims(
        token=ask.token,
        ek_names=tuple(names),
        lak_public=ask.lak,
        ldevid_public=ask.ldevid.public,
        ldevid_private=ask.ldevid.private,
        facts=ask.facts,
        log=ask.log,
    ).transcript()
    secrets = {item.ek_name: item.secret for item in challenge.credentials}
    if not hmac.compare_digest(activation_proof(secrets, transcript), ask.activation):
        raise CallRefusedError(
            403, "not-proven", "activation failed", findings=[ActivationFailed()], stop=False, retry_after=15
        )
    try:
        facts = machine_facts(ask.facts)
    except ValueError as error:
        raise malformed(f"facts: {error}") from error
    return Attempt(ask, address, challenge, transcript, publics, facts)


def subject_of(exchange: Exchange, session: Session, proven: Identity) -> Subject | None:
    """Return whose enrollment it is; None where the machine, its declaration or its class is not known."""
    if proven.machine is None:
        return None
    run = runs.open_run(session, proven.machine)
    declaration = run.declaration if run else runs.current_declaration(session, proven.machine)
    if declaration is None:
        return None
    found = exchange.classes().get(declaration.machine_class)
    if found is None or found.attestation is None:
        return None
    return Subject(proven.machine, declaration, found, found.attestation, run)
