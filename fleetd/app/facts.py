"""What a machine says of itself: it selects nothing, and must not contradict what is known."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.app.untrusted import json_object
from fleetd.core.declaration import Declaration
from fleetd.core.findings import Finding
from fleetd.core.findings.identity import FactContradicts
from fleetd.core.names import MachineId, disk_serial, mac_address
from fleetd.core.smbios import contradicts_serial, contradicts_uuid
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.enrollments import EnrollmentRow


def machine_facts(raw: bytes) -> dict[str, Any]:
    """Return the facts in their known shape, bounded; what has another shape is left out.

    Raises ValueError when the bytes are not a JSON object.
    """
    facts = json_object(raw)
    return {
        "dmi": _texts(facts.get("dmi"), ("serial", "uuid", "vendor", "product", "firmware")),
        "macs": [mac for text in _list(facts.get("macs")) if (mac := _mac(text))],
        "disks": [_disk(item) for item in _list(facts.get("disks")) if isinstance(item, dict)],
        "tpm": _texts(facts.get("tpm"), ("manufacturer", "model", "version")),
        "client": facts["client"] if isinstance(facts.get("client"), str) else "",
    }


def dmi(facts: dict[str, Any], name: str) -> str:
    """Return one of the DMI texts, or nothing."""
    found = facts.get("dmi", {}).get(name, "")
    return found if isinstance(found, str) else ""


def contradictions(
    session: Session, machine: MachineId, declaration: Declaration, facts: dict[str, Any]
) -> tuple[Finding, ...]:
    """Say where the claims contradict NetBox, or what the same TPM said of itself before."""
    found: list[Finding] = []
    if contradicts_serial(declaration.device_serial, dmi(facts, "serial")):
        found.append(FactContradicts("serial number"))
    declared = {mac for interface in declaration.interfaces for mac in interface.macs}
    if declared and facts["macs"] and not declared & set(facts["macs"]):
        found.append(FactContradicts("MAC addresses"))
    before = session.scalar(
        select(EnrollmentRow)
        .where(EnrollmentRow.machine_id == machine, EnrollmentRow.verified)
        .order_by(EnrollmentRow.made.desc())
        .limit(1)
    )
    if before is not None and _same_board(session, before):
        if contradicts_uuid(dmi(before.facts, "uuid"), dmi(facts, "uuid")):
            found.append(FactContradicts("system UUID"))
        if not declaration.device_serial and contradicts_serial(dmi(before.facts, "serial"), dmi(facts, "serial")):
            found.append(FactContradicts("serial number"))
    return tuple(found)


def _same_board(session: Session, before: EnrollmentRow) -> bool:
    """Whether nobody moved the key to the machine since: a replaced board has a UUID of its own."""
    key = session.get(EndorsementKeyRow, before.ek_hash)
    return key is not None and key.bound_at is not None and key.bound_at <= before.made


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any, names: tuple[str, ...]) -> dict[str, str]:
    source = value if isinstance(value, dict) else {}
    return {name: text if isinstance(text := source.get(name), str) else "" for name in names}


def _mac(value: Any) -> str:
    try:
        return mac_address(value) if isinstance(value, str) else ""
    except ValueError:
        return ""


def _disk(value: dict[str, Any]) -> dict[str, Any]:
    disk: dict[str, Any] = dict(_texts(value, ("name", "serial", "wwn", "model")))
    disk["serial"] = disk_serial(disk["serial"])
    for name in ("size", "sector_size"):
        number = value.get(name)
        disk[name] = number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else 0
    return disk
