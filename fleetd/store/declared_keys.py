"""Finding machines by what NetBox declares of them: endorsement keys, and claims of a machine that is not known yet."""

from collections.abc import Iterable, Sequence
from typing import cast

from sqlalchemy import Index, Table, bindparam, or_, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from fleetd.core.declaration import Declaration
from fleetd.core.identity import DeclaredBinding, OfferedKey
from fleetd.core.names import MachineId
from fleetd.core.records import from_record
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow

Index(
    "ix_machines_declared_keys",
    text("(declaration -> 'keys') jsonb_path_ops"),
    postgresql_using="gin",
    _table=cast(Table, MachineRow.__table__),
)
"""Every enrollment asks who declares its keys: an index, not a scan of the fleet."""


def declared_bindings(session: Session, offered: Iterable[OfferedKey]) -> list[DeclaredBinding]:
    """Return what NetBox says of these keys, for machines that it still declares."""
    wanted: list[list[dict[str, str]]] = []
    for key in offered:
        wanted.append([{"public_hash": key.public_hash}])
        if key.certificate_sha256:
            wanted.append([{"certificate_sha256": key.certificate_sha256}])
    if not wanted:
        return []
    keys = MachineRow.declaration["keys"]
    conditions = [keys.op("@>")(bindparam(None, each, JSONB)) for each in wanted]
    query = select(MachineRow.id, keys).where(or_(*conditions), ~MachineRow.vanished)
    return [
        DeclaredBinding(
            MachineId(machine), item["public_hash"], item.get("certificate_sha256", ""), item.get("status", "")
        )
        for machine, items in session.execute(query)
        for item in items
    ]


def waiting_matches(session: Session, macs: Sequence[str], serial: str, limit: int = 20) -> list[MachineId]:
    """Return machines with an open run that declare one of these MACs or this serial: whom an unknown TPM may be.

    A guess for a person to judge: nothing is decided by it.
    """
    query = (
        select(MachineRow.id, MachineRow.declaration)
        .join(RunRow, RunRow.id == MachineRow.run_id)
        .where(RunRow.ended_at.is_(None), ~MachineRow.vanished)
        .order_by(MachineRow.id)
    )
    found = []
    wanted = set(macs)
    for machine, record in session.execute(query):
        if record is None:
            continue
        declared: Declaration = from_record(Declaration, record)
        same_serial = bool(serial) and declared.device_serial.strip().casefold() == serial
        if same_serial or wanted & set(declared.macs):
            found.append(MachineId(machine))
            if len(found) == limit:
                break
    return found
