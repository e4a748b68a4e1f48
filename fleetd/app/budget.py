"""Which machines are out of service, and whether one more may be."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Select, func, or_, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from fleetd.core.classes import Budget, MachineClass, TagRules
from fleetd.core.declaration import Declaration
from fleetd.core.lifecycle.run import Run
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow

BUDGET_LOCK = 0x666C_6264
"""Advisory lock of everybody who lets a run pass its gate."""


def budget_full(
    session: Session, run: Run, declared: Declaration, rules: MachineClass | None, tags: Mapping[str, TagRules]
) -> str:
    """Return which budget has no room for this run, with its numbers; empty when all have."""
    if not run.was_active or run.by_check:
        return ""
    if rules is not None and rules.budget is not None:
        full = _full(session, run, rules.budget, MachineRow.machine_class == rules.slug)
        if full:
            return f"class {rules.slug}: {full}"
        if not run.lost_by and _changed_class_unproven(session, run, rules):
            return f"class {rules.slug} changed: one machine is installed to active before the rest"
    for tag in declared.tags:
        budget = tags[tag].budget if tag in tags else None
        if budget is not None:
            full = _full(session, run, budget, type_coerce(MachineRow.declaration, JSONB)["tags"].contains([tag]))
            if full:
                return f"tag {tag}: {full}"
    return ""


def _full(session: Session, run: Run, budget: Budget, which: ColumnElement[bool]) -> str:
    total = session.scalar(_count(which).where(_in_service_or_meant_to_be())) or 0
    out = session.scalar(_count(which).where(_out(), MachineRow.id != run.machine)) or 0
    room = budget.room(total)
    return "" if out < room else f"{out} of {total} out of service, {room} allowed ({budget})"


def _count(which: ColumnElement[bool]) -> Select[int]:
    joined = select(func.count()).select_from(MachineRow).outerjoin(RunRow, RunRow.id == MachineRow.run_id)
    return joined.where(which)


def _in_service_or_meant_to_be() -> ColumnElement[bool]:
    return or_(MachineRow.standing == "active", RunRow.was_active & (RunRow.kind == "provision"))


def _out() -> ColumnElement[bool]:
    """An active machine that a run has taken, or that one has not brought back, or that is lost."""
    taken = RunRow.was_active & RunRow.began_at.is_not(None) & RunRow.ended_at.is_(None) & (RunRow.kind != "attest")
    rebooting = (
        RunRow.was_active
        & RunRow.began_at.is_not(None)
        & RunRow.ended_at.is_(None)
        & (RunRow.orders["intent"]["reboot"].as_boolean())
    )
    broken = RunRow.was_active & (RunRow.kind == "provision") & (MachineRow.standing != "active")
    lost = (MachineRow.standing == "active") & (MachineRow.check_state == "lost")
    return or_(taken, rebooting, broken, lost)


def _changed_class_unproven(session: Session, run: Run, rules: MachineClass) -> bool:
    """Tell whether another machine is being installed with a class content that no machine runs yet."""
    proven = session.scalar(
        select(func.count())
        .select_from(MachineRow)
        .where(MachineRow.standing == "active", MachineRow.installed_digest == rules.digest)
    )
    if proven or run.kind.value != "provision":
        return False
    under_way = select(func.count()).select_from(RunRow).join(MachineRow, MachineRow.run_id == RunRow.id)
    others = session.scalar(
        under_way.where(
            MachineRow.machine_class == rules.slug,
            MachineRow.id != run.machine,
            RunRow.kind == "provision",
            RunRow.began_at.is_not(None),
            RunRow.ended_at.is_(None),
        )
    )
    return bool(others)


def runs_full(session: Session, most: int) -> str:
    """Say that the bound on runs is reached, or nothing."""
    count = session.scalar(
        select(func.count()).select_from(RunRow).where(RunRow.began_at.is_not(None), RunRow.ended_at.is_(None))
    )
    return "" if (count or 0) < most else f"{count} of {most}"
