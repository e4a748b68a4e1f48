"""`GET /v1/config`: how a Talos node fetches its machine configuration; it proves itself by its code and its address."""

import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from ipaddress import ip_address, ip_interface

from sqlalchemy.orm import Session

from fleetd.app import runs
from fleetd.app.exchange import Exchange
from fleetd.app.facts import dmi
from fleetd.app.recorded import declaration_of_run
from fleetd.app.redeem import alert, burn, spend
from fleetd.app.refusals import CallRefusedError
from fleetd.app.rows import lock_run
from fleetd.app.seed import class_of, refuse_quarantined, render_for
from fleetd.core.declaration import Declaration
from fleetd.core.exchange.sealing import ticket_hash
from fleetd.core.findings import Finding
from fleetd.core.findings.tickets import TicketFromOtherAddress, TicketFromOtherHardware, TicketWithoutFact
from fleetd.core.names import Family, MachineId, RunId, mac_address
from fleetd.core.smbios import contradicts_serial, contradicts_uuid, serial_number, system_uuid
from fleetd.store.enrollments import EnrollmentRow, current_install, latest_enrollment
from fleetd.store.tickets import TicketRow, find_ticket

_CODE = re.compile(r"[A-Za-z0-9_-]{16,200}")


@dataclass(frozen=True, slots=True)
class ConfigAsk:
    """The query of a node, and where it came from."""

    code: str
    uuid: str
    serial: str
    mac: str
    address: str


def fetch_config(exchange: Exchange, ask: ConfigAsk) -> bytes:
    """Return the machine configuration, once. Raises CallRefusedError: 404 says nothing of what would have matched."""
    if not _CODE.fullmatch(ask.code):
        raise _not_found()
    now = exchange.clock.now()
    with exchange.sessions() as session:
        row = find_ticket(session, ticket_hash(exchange.server_key, ask.code))
        run = runs.open_run(session, MachineId(row.machine_id)) if row else None
        if row is None or (run is None and row.redeemed_at is None):
            raise _not_found()
        machine, run_id = MachineId(row.machine_id), RunId(row.run_id)
        declaration = declaration_of_run(session, run_id)
        enrolled = latest_enrollment(session, machine, run_id)
        install = current_install(session, machine)
        refuse_quarantined(session, machine)
    if declaration is None or enrolled is None or install is None or install.run_id != run_id:
        raise _not_found()
    found = class_of(exchange, run) if run is not None else exchange.classes().get(declaration.machine_class)
    if found is None or found.family is not Family.TALOS:
        raise _not_found()
    wrong = _other_hardware(enrolled, declaration, ask)
    if wrong:
        raise burn(exchange, ask.code, machine, run_id, TicketFromOtherHardware(wrong), now)
    doubt = _doubt(enrolled, declaration, ask)
    if doubt is not None:
        with exchange.sessions.begin() as session:
            alert(session, machine, run_id, doubt, now)
        raise _not_found()
    config = render_for(exchange, run_id, declaration, found, install)
    _spend(exchange, ask, machine, run_id, config, now)
    exchange.wake(machine)
    return config


def _other_hardware(enrolled: EnrollmentRow, declaration: Declaration, ask: ConfigAsk) -> str:
    if contradicts_serial(dmi(enrolled.facts, "serial"), ask.serial):
        return "serial number"
    if contradicts_uuid(dmi(enrolled.facts, "uuid"), ask.uuid):
        return "system UUID"
    try:
        mac = mac_address(ask.mac) if ask.mac else ""
    except ValueError:
        return "MAC address"
    known = {item for interface in declaration.interfaces for item in interface.macs}
    return "MAC address" if mac and known and mac not in known else ""


def _doubt(enrolled: EnrollmentRow, declaration: Declaration, ask: ConfigAsk) -> Finding | None:
    """Return why this may not be the node, though nothing says that it is another: its code stays usable.

    What is known of the machine must be told; firmware that has only placeholders has nothing to tell.
    """
    if serial_number(dmi(enrolled.facts, "serial")) and not serial_number(ask.serial):
        return TicketWithoutFact("serial number")
    if system_uuid(dmi(enrolled.facts, "uuid")) and not system_uuid(ask.uuid):
        return TicketWithoutFact("system UUID")
    if any(interface.macs for interface in declaration.interfaces) and not ask.mac:
        return TicketWithoutFact("MAC address")
    return None if _reserved(declaration, ask.address) else TicketFromOtherAddress(ask.address)


def _reserved(declaration: Declaration, address: str) -> bool:
    """Whether the address is one that NetBox gives the machine; where NetBox gives none, none is demanded."""
    reserved = {ip_interface(item.address).ip for item in declaration.addresses}
    try:
        return not reserved or ip_address(address) in reserved
    except ValueError:
        return False


def _spend(exchange: Exchange, ask: ConfigAsk, machine: MachineId, run: RunId, config: bytes, now: datetime) -> None:
    refusal: Finding | None
    with exchange.sessions.begin() as session:
        lock_run(session, run)  # before the ticket, as a check does: nobody waits in a circle
        row = _locked(exchange, session, ask)
        refusal = spend(session, row, sha256(config).hexdigest(), now, exchange, ask.address)
        if refusal is None:
            runs.record_redemption(session, run, now)
        else:
            alert(session, machine, run, refusal, now)
    if refusal is not None:
        raise _not_found()


def _locked(exchange: Exchange, session: Session, ask: ConfigAsk) -> TicketRow | None:
    return find_ticket(session, ticket_hash(exchange.server_key, ask.code))


def _not_found() -> CallRefusedError:
    return CallRefusedError(404, "not-found", "there is no configuration for this request")
