"""The boot check: once an hour the installed system shows by a quote that it still is what it was."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from fleet_machine.challenge import Challenge, base64_text
from fleet_machine.client import Answer, FleetClient
from fleet_machine.clock import parse_time
from fleet_machine.enroll import pcrs_json, signed_json
from fleet_machine.failure import FleetError, NotAuthenticError, RefusedError
from fleet_machine.jws import ServiceKeys, Typ
from fleet_machine.seed.devid import keep_installed
from fleet_machine.seed.state import Certificates, InstalledState, with_certificates
from fleet_machine.surroundings import Surroundings
from fleet_machine.transcript import Label, check_transcript, extra_data

INTERVAL = 3600.0
"""Seconds between checks when fleetd could not be asked."""
LONGEST_INTERVAL = 24 * 3600.0
ROUNDS = 4
"""Attempts of one check: the log may be asked for, and a token may have grown old."""
SOON = 5.0


class CheckResult(Enum):
    """What fleetd makes of a check."""

    OK = "ok"
    DRIFTED = "drifted"
    FAILED = "failed"
    LOG_NEEDED = "log-needed"


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check, and when and with what the next one is due."""

    result: CheckResult
    next_in: float
    next_challenge: Challenge


@dataclass(slots=True)
class BootCheck:
    """Checks one installed machine; keeps renewed certificates in `folder`."""

    around: Surroundings
    client: FleetClient
    state: InstalledState
    folder: Path
    lak_context: bytes | None = None
    challenge: Challenge | None = None

    def once(self) -> Checked:
        """Check until fleetd has what it needs to judge. Raises FleetError."""
        for left in reversed(range(ROUNDS)):
            try:
                checked = self._attempt()
            except RefusedError as refusal:
                soon = refusal.retry_after is not None and refusal.retry_after <= SOON
                if refusal.stop or not soon or not left:
                    raise
                self.around.clock.sleep(refusal.retry_after or 0.0)
                continue
            if checked.result is not CheckResult.LOG_NEEDED:
                return checked
        raise NotAuthenticError("fleetd asks for the event log again and again.")

    def forever(self) -> None:
        """Check, wait as long as fleetd says, check again; a failure is said and waited out.

        Raises FleetError only when the state itself cannot be used.
        """
        while True:
            try:
                wait = self.once().next_in
            except FleetError as error:
                self.around.console.say(f"The boot check could not be made: {error}")
                self.challenge = None
                asked = error.retry_after if isinstance(error, RefusedError) else None
                wait = INTERVAL / 4 if asked is None else asked
            self.around.clock.sleep(max(0.1, min(wait, LONGEST_INTERVAL)))

    def _attempt(self) -> Checked:
        challenge = self._challenge()
        # A token is used once; whatever happens now, the next check starts with another.
        self.challenge = None
        log = self.around.event_log.read() if challenge.send_log else None
        serials = self.state.serials()
        pins = self.client.service.keys.kids()
        transcript = check_transcript(challenge.token, serials, b"", log, pins)
        with (
            self.around.tpm() as tpm,
            tpm.lak(self.state.lak_unique, self.state.lak_algorithm, self.lak_context) as lak,
        ):
            self.lak_context = lak.context
            extra = extra_data(Label.CHECK, challenge.nonce, transcript)
            quoted = tpm.quote(lak, challenge.bank, challenge.select, extra)
        body = {
            "version": 1,
            "token": challenge.token,
            "machine": self.state.machine,
            "quote": signed_json(quoted.signed),
            "pcrs": pcrs_json(quoted),
            "certificates": list(serials),
            "keys": list(pins),
            **({"log": base64_text(log)} if log is not None else {}),
        }
        answer = self.client.call("POST", "/v1/checks", json.dumps(body).encode())
        payload = self.client.signed(answer, Typ.RESULT)
        checked = self._judged(payload)
        if payload.get("keys") and payload.get("challenge") == challenge.id:
            self._pin(json.dumps(payload["keys"]).encode(), answer)
        return checked

    def _pin(self, jwks: bytes, answer: Answer) -> None:
        """Pin the service keys that an answer to this very challenge names; on disk before the next check tells of them.

        A set without the key that signed the answer is not taken: the machine would believe nothing any more.
        """
        try:
            keys = ServiceKeys.from_jwks(jwks)
            keys.verify(answer.body["jws"], Typ.RESULT)
        except FleetError as error:
            self.around.console.say(f"fleetd told other service keys, which are not taken: {error}")
            return
        self.state = replace(self.state, keys=jwks)
        keep_installed(self.folder, self.state)
        self.client.service = replace(self.client.service, keys=keys)
        self.around.console.say(f"Service keys pinned from now on: {', '.join(keys.kids())}.")

    def _challenge(self) -> Challenge:
        held = self.challenge
        if held is not None and self.client.time.now() < held.expires:
            return held
        body = json.dumps({"version": 1, "purpose": "check", "machine": self.state.machine}).encode()
        answer = self.client.call("POST", "/v1/challenges", body)
        challenge = Challenge.from_payload(self.client.signed(answer, Typ.CHALLENGE))
        self.client.believe_time(challenge.issued)
        return challenge

    def _judged(self, payload: Mapping[str, Any]) -> Checked:
        if payload.get("machine") != self.state.machine:
            raise NotAuthenticError("The answer is for another machine.")
        try:
            result = CheckResult(payload["result"])
            following = Challenge.from_payload(payload["next"])
            wait = float(payload["next_check_in"])
            self.client.believe_time(parse_time(payload["server_time"]))
            renewed = Certificates.from_json(payload["certificates"]) if payload.get("certificates") else None
        except (KeyError, TypeError, ValueError) as error:
            raise NotAuthenticError(f"The answer to the check is malformed: {error!r}.") from error
        self.challenge = following
        for finding in payload.get("findings") or ():
            self.around.console.say(f"{finding.get('code')}: {finding.get('message')} {finding.get('next_step', '')}")
        if renewed is not None:
            self.state = with_certificates(self.state, renewed)
            keep_installed(self.folder, self.state)
            self.around.console.say("New certificates are installed.")
        if result is not CheckResult.LOG_NEEDED:
            self.around.console.say(f"Boot check: {result.value}; the next one in {wait / 60:.0f} min.")
        return Checked(result, wait, following)
