"""Challenges: stateless, so that a request without proof writes nothing and costs little."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.exchange import Exchange
from fleetd.app.messages import CheckAsk, EndorsementKey, EnrollAsk, RedeemAsk
from fleetd.app.refusals import CallRefusedError, malformed
from fleetd.app.stamps import stamp
from fleetd.app.whois import offered_keys, who_is
from fleetd.core.attestation.credential import SECRET_SIZE, make_credential
from fleetd.core.attestation.device_keys import judge_lak
from fleetd.core.attestation.endorsement import EndorsementRules, judge_public_area
from fleetd.core.attestation.policy import DEFAULT_PCRS
from fleetd.core.attestation.structures import MalformedStructure, PublicArea, parse_public
from fleetd.core.attestation.transcript import lak_unique
from fleetd.core.exchange.tokens import Challenge, Credential, PcrDemand, Purpose, seal_token
from fleetd.core.findings import Finding, refuses
from fleetd.core.identity import Identity
from fleetd.core.names import IntentKind, MachineId
from fleetd.store.checks import CheckRow
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.enrollments import InstallRow, current_install, install_of_run

_NONCE = 32
_ANY = EndorsementRules(allow_roca=True)
"""Whether a factorable key is admitted is the class's word, which is only known after proof."""


def ask(exchange: Exchange, wanted: EnrollAsk | CheckAsk | RedeemAsk, address: str) -> str:
    """Return the signed challenge, or the signed first step of one. Raises CallRefusedError."""
    del address
    match wanted:
        case EnrollAsk():
            payload = _enroll(exchange, wanted)
        case CheckAsk():
            payload = check_challenge(exchange, MachineId(wanted.machine), send_log=None)
        case RedeemAsk():
            payload = _redeem(exchange, wanted)
    return exchange.speaker.sign("fleet-challenge+jwt", payload)


def _enroll(exchange: Exchange, wanted: EnrollAsk) -> dict[str, Any]:
    publics = parsed_keys(wanted.eks)
    _refuse(
        [finding for public in publics for finding in judge_public_area(public, _ANY)], "endorsement key not usable"
    )
    with exchange.sessions() as session:
        proven = who_is(session, offered_keys(wanted.eks, publics))
        unique = unique_for(session, proven, publics)
        if wanted.lak is None:
            return {"lak_unique": _text(unique)}
        lak = parsed(wanted.lak, "lak")
        _refuse(judge_lak(lak), "LAK not usable")
        install = _kept_install(session, proven)
        demand = _demand(exchange, session, proven)
    secrets = tuple(Credential(ek.name(), exchange.random.bytes(SECRET_SIZE)) for ek in publics)
    challenge = _fresh(
        exchange, Purpose.ENROLL, demand, send_log=True, lak_name=lak.name(), lak_unique=unique, credentials=secrets
    )
    payload = clear_fields(exchange, challenge)
    payload["lak_unique"] = _text(unique)
    payload["credentials"] = _credentials(exchange, publics, lak, secrets)
    if install is not None:
        payload["ldevid"] = {"public": _text(install.ldevid_public), "private": _text(install.ldevid_private)}
    return payload


def unique_for(session: Session, proven: Identity, publics: Sequence[PublicArea]) -> bytes:
    """Return the `unique` of the LAK: of the run for a provision, else of the present install, else of the EK."""
    if proven.machine is not None:
        run = runs.open_run(session, proven.machine)
        if run is not None and run.kind is IntentKind.PROVISION:
            return lak_unique(run.id)
        install = current_install(session, proven.machine)
        if install is not None:
            return bytes(install.lak_unique)
        if run is not None:
            return lak_unique(run.id)
    return lak_unique(min(public.name() for public in publics))


def _kept_install(session: Session, proven: Identity) -> InstallRow | None:
    """Return the present install where its LDevID shall be found again."""
    if proven.machine is None:
        return None
    run = runs.open_run(session, proven.machine)
    if run is not None and run.kind is IntentKind.PROVISION:
        # Only what an earlier try of the same run made: another run gets keys of its own.
        return install_of_run(session, proven.machine, run.id)
    return current_install(session, proven.machine)


def _demand(exchange: Exchange, session: Session, proven: Identity) -> PcrDemand:
    if proven.machine is not None:
        declaration = runs.current_declaration(session, proven.machine)
        found = exchange.classes().get(declaration.machine_class) if declaration else None
        if found is not None and found.attestation is not None:
            return PcrDemand(found.attestation.bank.value, found.attestation.select)
    return PcrDemand("sha256", DEFAULT_PCRS)


def _redeem(exchange: Exchange, wanted: RedeemAsk) -> dict[str, Any]:
    """Make a challenge for the LAK and the EK that this machine's enrollment proved."""
    with exchange.sessions() as session:
        install = current_install(session, MachineId(wanted.machine))
        if install is None or install.run_id != wanted.run:
            raise CallRefusedError(404, "not-found", "no such run of this machine has a seed to redeem")
        row = session.get(EndorsementKeyRow, install.ek_hash)
        if row is None:
            raise CallRefusedError(404, "not-found", "no such run of this machine has a seed to redeem")
        demand = _demand(exchange, session, Identity(MachineId(wanted.machine)))
        lak, ek = parse_public(install.lak_public), parse_public(row.public)
        unique = bytes(install.lak_unique)
    secrets = (Credential(ek.name(), exchange.random.bytes(SECRET_SIZE)),)
    challenge = _fresh(
        exchange,
        Purpose.REDEEM,
        demand,
        send_log=True,
        machine=wanted.machine,
        run=wanted.run,
        lak_name=lak.name(),
        lak_unique=unique,
        credentials=secrets,
    )
    payload = clear_fields(exchange, challenge)
    payload["lak_unique"] = _text(unique)
    payload["credentials"] = _credentials(exchange, [ek], lak, secrets)
    return payload


def check_challenge(exchange: Exchange, machine: MachineId, *, send_log: bool | None) -> dict[str, Any]:
    """Return the challenge of a boot check; `send_log` None asks what the store wants of this machine.

    A machine that is not known gets one too: whether it exists is not told to those who only ask.
    """
    with exchange.sessions() as session:
        demand = _demand(exchange, session, Identity(machine))
        if send_log is None:
            row = session.get(CheckRow, machine)
            send_log = row is None or row.baseline is None or row.log_demanded or runs.wants_log(session, machine)
    return fresh_check(exchange, machine, demand, send_log=send_log)


def fresh_check(exchange: Exchange, machine: MachineId, demand: PcrDemand, *, send_log: bool) -> dict[str, Any]:
    """Make the challenge of a boot check that asks for these PCRs."""
    life = max(exchange.settings.challenge, exchange.settings.check_interval * 3)
    challenge = _fresh(exchange, Purpose.CHECK, demand, send_log=send_log, machine=machine, life=life)
    return clear_fields(exchange, challenge)


def _fresh(
    exchange: Exchange, purpose: Purpose, pcrs: PcrDemand, *, send_log: bool, life: Any = None, **fields: Any
) -> Challenge:
    issued = exchange.clock.now()
    return Challenge(
        id=UUID(bytes=exchange.random.bytes(16), version=4),
        purpose=purpose,
        nonce=exchange.random.bytes(_NONCE),
        pcrs=pcrs,
        issued=issued,
        expires=issued + (life or exchange.settings.challenge),
        send_log=send_log,
        **fields,
    )


def clear_fields(exchange: Exchange, challenge: Challenge) -> dict[str, Any]:
    """Return what the client reads of a challenge; the service trusts only the token."""
    return {
        "challenge": str(challenge.id),
        "token": seal_token(exchange.server_key, challenge, exchange.random.bytes(12)),
        "nonce": _text(challenge.nonce),
        "pcrs": challenge.pcrs.as_dict(),
        "issued": stamp(challenge.issued),
        "expires": stamp(challenge.expires),
        "send_log": challenge.send_log,
    }


def _credentials(
    exchange: Exchange, publics: Sequence[PublicArea], lak: PublicArea, secrets: Sequence[Credential]
) -> list[dict[str, str]]:
    made = []
    for public, secret in zip(publics, secrets, strict=True):
        try:
            credential = make_credential(public, lak.name(), secret.secret, exchange.random)
        except MalformedStructure as error:
            raise malformed(f"eks: {error}") from error
        made.append(
            {"ek_name": _text(public.name()), "blob": _text(credential.blob), "secret": _text(credential.secret)}
        )
    return made


def parsed(raw: bytes, field: str) -> PublicArea:
    """Return the public area. Raises CallRefusedError 400."""
    try:
        return parse_public(raw)
    except MalformedStructure as error:
        raise malformed(f"{field}: {error}") from error


def parsed_keys(keys: Sequence[EndorsementKey]) -> list[PublicArea]:
    """Return the public areas of the offered EKs, each once. Raises CallRefusedError 400."""
    publics = [parsed(key.public, f"eks.{index}.public") for index, key in enumerate(keys)]
    if len({public.name() for public in publics}) != len(publics):
        raise malformed("eks: one endorsement key stands twice")
    return publics


def _refuse(findings: Sequence[Finding], detail: str) -> None:
    if refuses(tuple(findings)):
        raise CallRefusedError(403, "keys-refused", detail, findings=findings, stop=True)


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()


def token_expired(challenge: Challenge, now: datetime) -> CallRefusedError | None:
    """Return the refusal of a challenge whose time is over."""
    if not challenge.expired(now):
        return None
    return CallRefusedError(
        410, "token-expired", "the challenge has expired; ask for another", stop=False, retry_after=1
    )
