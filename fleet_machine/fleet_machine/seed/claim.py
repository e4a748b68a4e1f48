"""Claiming the seed: the installed system shows its ticket and a quote, and gets its seed sealed to its TPM."""

import json
from pathlib import Path
from typing import Any

from fleet_machine.challenge import Challenge, base64_text, unbase64
from fleet_machine.client import FleetClient
from fleet_machine.enroll import pcrs_json, signed_json
from fleet_machine.facts import facts_document
from fleet_machine.failure import NotAuthenticError, RefusedError
from fleet_machine.jws import Typ
from fleet_machine.keys import Binding, EnvelopeError, Purpose, open_envelope, redeem_key
from fleet_machine.runfolder import write_private
from fleet_machine.seed.devid import keep_installed
from fleet_machine.seed.state import SEED_FILE, Certificates, InstalledState
from fleet_machine.seed.ticket import Ticket
from fleet_machine.surroundings import Surroundings
from fleet_machine.transcript import Label, extra_data, redeem_transcript

PAUSE, LONGEST_PAUSE = 15.0, 300.0


def claim_seed(around: Surroundings, client: FleetClient, ticket: Ticket, folder: Path) -> InstalledState:
    """Redeem the ticket and keep seed and state in `folder`; a lost answer is asked for again, and so is a refusal.

    Raises FleetError; RefusedError when fleetd says `stop`: the ticket is burnt.
    """
    around.console.say(f"Asking {ticket.url} for the seed of run {ticket.run}.")
    pause, give_up = PAUSE, around.clock.boot() + client.service.patience
    while True:
        try:
            seed = _redeem(around, client, ticket)
            break
        except RefusedError as refusal:
            around.console.say(f"fleetd does not give the seed ({refusal.status}): {refusal}")
            for finding in refusal.findings:
                around.console.say(finding.line())
            wait = pause if refusal.retry_after is None else refusal.retry_after
            if refusal.stop or around.clock.boot() + wait > give_up:
                raise
            around.clock.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE)
    state = installed_state(ticket, seed)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / SEED_FILE, json.dumps(seed, indent=1).encode())
    keep_installed(folder, state)
    around.console.say(f"The seed of {seed['device']} is here: class {seed['class']}, profile {seed['profile']}.")
    return state


def installed_state(ticket: Ticket, seed: dict[str, Any]) -> InstalledState:
    """Return what the installed system keeps of a seed. Raises NotAuthenticError when it is not of this machine."""
    try:
        certificates = seed.get("certificates")
        state = InstalledState(
            int(seed["machine"]),
            ticket.run,
            ticket.url,
            ticket.ca,
            ticket.keys,
            unbase64(seed["lak_unique"]),
            ticket.lak_algorithm,
            Certificates.from_json(certificates) if certificates else None,
            unbase64(seed["devid"]["public"]),
            unbase64(seed["devid"]["private"]),
            str(seed.get("devid_folder", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotAuthenticError(f"The seed lacks what it must have: {error!r}.") from error
    if (state.machine, state.lak_unique) != (ticket.machine, ticket.lak_unique):
        raise NotAuthenticError("The seed is of another machine or run than the ticket.")
    return state


def _redeem(around: Surroundings, client: FleetClient, ticket: Ticket) -> dict[str, Any]:
    asked = {"version": 1, "purpose": "redeem", "machine": ticket.machine, "run": ticket.run}
    answer = client.call("POST", "/v1/challenges", json.dumps(asked).encode())
    challenge = Challenge.from_payload(client.signed(answer, Typ.CHALLENGE))
    client.believe_time(challenge.issued)
    if challenge.lak_unique != ticket.lak_unique or len(challenge.credentials) != 1:
        raise NotAuthenticError("The challenge is not for the key that this machine was installed with.")
    credential = challenge.credentials[0]
    log = around.event_log.read() if challenge.send_log else None
    transcript = redeem_transcript(challenge.token, ticket.ticket)
    with around.tpm() as tpm:
        eks = {ek.name: ek for ek in tpm.endorsement_keys()}
        if credential.ek_name not in eks:
            raise NotAuthenticError("The challenge is for an endorsement key that this TPM does not have.")
        identity = tpm.identity()
        with tpm.lak(ticket.lak_unique, ticket.lak_algorithm, None) as lak:
            secret = tpm.activate(eks[credential.ek_name], lak, credential.blob, credential.secret)
            extra = extra_data(Label.REDEEM, challenge.nonce, transcript)
            quoted = tpm.quote(lak, challenge.bank, challenge.select, extra)
    facts = facts_document(around.facts.dmi(), around.facts.macs(), around.disks.disks(), identity)
    body = {
        "version": 1,
        "token": challenge.token,
        "ticket": ticket.ticket,
        "quote": signed_json(quoted.signed),
        "pcrs": pcrs_json(quoted),
        "facts": base64_text(facts),
        **({"log": base64_text(log)} if log is not None else {}),
    }
    answer = client.call("POST", "/v1/seeds/redeem", json.dumps(body).encode())
    payload = client.signed(answer, Typ.SEED)
    if (payload.get("run"), payload.get("challenge")) != (ticket.run, challenge.id):
        raise NotAuthenticError("The seed is for another run or challenge.")
    try:
        binding = Binding(Purpose.REDEEM, challenge.id, ticket.run)
        seed = json.loads(open_envelope(redeem_key(secret, transcript), unbase64(payload.get("sealed")), binding))
    except (EnvelopeError, ValueError) as error:
        raise NotAuthenticError(f"The seed cannot be opened: {error}") from error
    if not isinstance(seed, dict) or seed.get("version") != 1:
        raise NotAuthenticError("The seed is of a version that this client does not know.")
    return seed
