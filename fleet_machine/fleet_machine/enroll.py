"""Enrollment: the machine proves by its TPM which machine it is and how it booted (docs/reference/machine-api.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fleet_machine.challenge import Challenge, base64_text, unbase64
from fleet_machine.client import FleetClient
from fleet_machine.clock import FleetTime
from fleet_machine.facts import facts_document
from fleet_machine.failure import FleetError, NotAuthenticError, RefusedError
from fleet_machine.jws import Typ
from fleet_machine.keys import Binding, EnvelopeError, Purpose, SessionKey, activation_proof, open_envelope, seal_key
from fleet_machine.runfolder import RunFolder, Session
from fleet_machine.settings import RunSettings
from fleet_machine.surroundings import Surroundings
from fleet_machine.tpm import EndorsementKey, KeyPair, Lak, Quoted, Signed, Tpm
from fleet_machine.tpm.errors import LoadRefusedError
from fleet_machine.transcript import EnrollmentClaims, Label, Transcript, extra_data

FIRST_WAIT, LONGEST_WAIT = 15.0, 300.0
REFUSALS_IN_A_ROW = 5
"""How often fleetd may refuse, for another reason than its verdict and with no time to come back, before it is believed."""
CHAIN_BUDGET = 24 * 1024
"""Bytes of chain certificates in a challenge, whose body may have 64 KiB."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """fleetd wants the machine to ask again later; seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One enrollment as sent, and what opens its answer."""

    body: dict[str, Any]
    secrets: Mapping[bytes, bytes]
    transcript: Transcript


class Enrollment:
    """Enrolls until fleetd says yes, or says stop."""

    def __init__(self, around: Surroundings, client: FleetClient, run: RunSettings) -> None:
        """Use the machine, the connection to fleetd, and the run that this is for."""
        self._around = around
        self._client = client
        self._run = run
        self._folder = RunFolder(around.run_folder)

    def until_verified(self) -> Session:
        """Enroll, wait where fleetd says so, enroll again; return the session, kept in the run's folder.

        Raises FleetError: RefusedError with `stop` after a final verdict, TpmError, OutsideError.
        """
        wait, refused = FIRST_WAIT, 0
        while True:
            try:
                outcome = self._attempt()
            except RefusedError as refusal:
                # A verdict may be mended by a person, and a time to come back is fleetd's own wish: it was killed, say,
                # while it answered, and the challenge is used up.
                expected = refusal.status == 403 or refusal.retry_after is not None
                refused = 0 if expected else refused + 1
                self._tell(refusal)
                if refusal.stop or refused >= REFUSALS_IN_A_ROW:
                    raise
                outcome = Waiting(wait if refusal.retry_after is None else refusal.retry_after)
            else:
                refused = 0
            if isinstance(outcome, Session):
                return outcome
            self._around.clock.sleep(outcome.seconds)
            wait = min(wait * 2, LONGEST_WAIT)

    def _attempt(self) -> Session | Waiting:
        with self._around.tpm() as tpm:
            exchange = self._prove(tpm)
        if exchange is None:
            return Waiting(0.0)
        answer = self._client.call("POST", "/v1/enrollments", json.dumps(exchange.body).encode())
        payload = self._client.signed(answer, Typ.RESULT)
        if payload.get("state") == "waiting":
            return self._waiting(payload, answer.retry_after)
        if payload.get("state") != "verified":
            raise NotAuthenticError(f"fleetd answers with a state that is not known: {payload.get('state')!r}.")
        return self._session(payload, exchange)

    def _prove(self, tpm: Tpm) -> _Exchange | None:
        """Make the body of an enrollment; None when fleetd names another LAK by now, as after an approval in between.

        A LAK made of another `unique` than the token names could never be made again.
        """
        eks = tpm.endorsement_keys()
        offered = _offered(eks, tpm.chain())
        first = self._challenge({"eks": offered})
        unique = unbase64(first["lak_unique"])
        facts = facts_document(
            self._around.facts.dmi(), self._around.facts.macs(), self._around.disks.disks(), tpm.identity()
        )
        with tpm.lak(unique, None, self._folder.lak_context()) as lak:
            self._folder.keep_lak_context(lak.context)
            challenge = Challenge.from_payload(self._challenge({"eks": offered, "lak": base64_text(lak.public)}))
            self._client.believe_time(challenge.issued)
            if challenge.lak_unique != unique:
                return None
            log = self._around.event_log.read() if challenge.send_log else None
            secrets = self._activate(tpm, eks, lak, challenge)
            ldevid = self._ldevid(tpm, challenge)
            claims = EnrollmentClaims(
                challenge.token, tuple(ek.name for ek in eks), lak.public, ldevid.public, ldevid.private, facts, log
            )
            transcript = claims.transcript()
            certified = tpm.certify(ldevid, lak, extra_data(Label.ENROLL_CERTIFY, challenge.nonce, transcript))
            quoted = tpm.quote(
                lak, challenge.bank, challenge.select, extra_data(Label.ENROLL_QUOTE, challenge.nonce, transcript)
            )
        body = {
            "version": 1,
            "token": challenge.token,
            "activation": base64_text(activation_proof(secrets, transcript)),
            "eks": offered,
            "lak": base64_text(claims.lak_public),
            "ldevid": {"public": base64_text(ldevid.public), "private": base64_text(ldevid.private)},
            "quote": signed_json(quoted.signed),
            "certify": signed_json(certified),
            "pcrs": pcrs_json(quoted),
            "facts": base64_text(facts),
        }
        if log is not None:
            body["log"] = base64_text(log)
        return _Exchange(body, secrets, transcript)

    def _challenge(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({"version": 1, "purpose": "enroll", **asked}).encode()
        payload = self._client.signed(self._client.call("POST", "/v1/challenges", body), Typ.CHALLENGE)
        if not isinstance(payload.get("lak_unique"), str):
            raise NotAuthenticError("The challenge names no lak_unique.")
        return payload

    def _activate(
        self, tpm: Tpm, eks: tuple[EndorsementKey, ...], lak: Lak, challenge: Challenge
    ) -> dict[bytes, bytes]:
        known = {ek.name: ek for ek in eks}
        secrets = {}
        for credential in challenge.credentials:
            if credential.ek_name not in known:
                raise NotAuthenticError("The challenge is for an endorsement key that this TPM did not offer.")
            secrets[credential.ek_name] = tpm.activate(
                known[credential.ek_name], lak, credential.blob, credential.secret
            )
        if not secrets:
            raise NotAuthenticError("The challenge holds no credential.")
        return secrets

    def _ldevid(self, tpm: Tpm, challenge: Challenge) -> KeyPair:
        """Return the LDevID that fleetd keeps for this machine, or that this boot made, or a new one."""
        for pair in (challenge.ldevid, self._folder.ldevid()):
            if pair is None:
                continue
            try:
                with tpm.ldevid(pair):
                    return pair
            except LoadRefusedError:
                self._around.console.say("The stored device identity key is not of this TPM: making a new one.")
        pair = tpm.make_ldevid()
        self._folder.keep_ldevid(pair)
        return pair

    def _waiting(self, payload: Mapping[str, Any], retry_after: float | None) -> Waiting:
        say = self._around.console.say
        say(f"{payload.get('message') or 'A person has to approve this machine.'}")
        if payload.get("fingerprint"):
            say(f"Fingerprint of this machine's TPM, to compare with NetBox: {payload['fingerprint']}")
        told = payload.get("retry_after")
        return Waiting(float(told) if isinstance(told, int | float) else retry_after or FIRST_WAIT)

    def _session(self, payload: Mapping[str, Any], exchange: _Exchange) -> Session:
        enrollment, run = str(payload.get("enrollment", "")), str(payload.get("run") or "")
        if self._run.run and run != self._run.run:
            raise NotAuthenticError(
                f"fleetd answers for the run {run or 'none'}; this action belongs to {self._run.run}."
            )
        binding = Binding(Purpose.RESULT, enrollment, run)
        try:
            key = seal_key(exchange.secrets, exchange.transcript)
            result = json.loads(open_envelope(key, unbase64(payload.get("sealed")), binding))
            session = Session(
                str(UUID(result["enrollment"])),
                str(result.get("run") or ""),
                int(result["machine"]),
                str(result["node_name"]),
                SessionKey(unbase64(result["session_key"])),
                self._client.time.mark,
            )
        except (EnvelopeError, ValueError, KeyError, TypeError) as error:
            raise NotAuthenticError(f"The result of the enrollment cannot be opened: {error!r}.") from error
        if (session.enrollment, session.run) != (enrollment, run):
            raise NotAuthenticError("The sealed result is of another enrollment.")
        if self._run.machine is not None and session.machine != self._run.machine:
            raise FleetError(
                f"fleetd knows this TPM as machine {session.machine}, but this action is for machine {self._run.machine}: "
                "another machine booted with this one's network address. Nothing is done."
            )
        self._folder.keep_session(session)
        self._around.console.say(f"fleetd knows this machine: {session.node_name}.")
        return session

    def _tell(self, refusal: RefusedError) -> None:
        self._around.console.say(f"fleetd does not accept this machine ({refusal.status}): {refusal}")
        for finding in refusal.findings:
            self._around.console.say(finding.line())


def ensured_session(around: Surroundings, client: FleetClient, run: RunSettings) -> Session:
    """Return the session of this boot, enrolling when there is none (after a power cut, say). Raises FleetError."""
    held = RunFolder(around.run_folder).session()
    if held is not None and held.run == run.run and run.machine in (None, held.machine):
        if client.time.mark is None:
            client.time.mark = held.mark
        return held
    return Enrollment(around, client, run).until_verified()


def connected(around: Surroundings, environment: Mapping[str, str]) -> FleetClient:
    """Return a client for the fleetd that the environment names. Raises FleetError."""
    from fleet_machine.settings import Service

    service = Service.from_environment(environment)
    return FleetClient(service, around.clock, around.console, FleetTime(around.clock))


def signed_json(signed: Signed) -> dict[str, str]:
    """Return an attestation as it travels."""
    return {"attest": base64_text(signed.attest), "signature": base64_text(signed.signature)}


def pcrs_json(quoted: Quoted) -> dict[str, dict[str, str]]:
    """Return PCR values as they travel."""
    return {quoted.bank: {str(index): value.hex() for index, value in sorted(quoted.pcrs.items())}}


def _offered(eks: tuple[EndorsementKey, ...], chain: tuple[bytes, ...]) -> list[dict[str, Any]]:
    """Return the EKs as they travel, the maker's chain with each certificate as long as the message stays small."""
    certificates = sum(ek.certificate is not None for ek in eks)
    everywhere = certificates * sum(map(len, chain)) <= CHAIN_BUDGET
    offered: list[dict[str, Any]] = []
    for ek in eks:
        item: dict[str, Any] = {"public": base64_text(ek.public)}
        if ek.certificate is not None:
            item["certificate"] = base64_text(ek.certificate)
            if chain and (everywhere or not any("chain" in other for other in offered)):
                item["chain"] = [base64_text(certificate) for certificate in chain]
        offered.append(item)
    return offered
