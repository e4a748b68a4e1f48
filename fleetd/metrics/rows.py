"""Reading the numbers from the store: a few aggregates, each an index scan or one pass over a table."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Float, bindparam, func, select, text
from sqlalchemy.orm import Session, aliased

from fleetd.app.poll import MALFORMED as MALFORMED_MARK
from fleetd.app.poll import POLLED
from fleetd.app.sweep import SWEPT
from fleetd.metrics import names
from fleetd.metrics.names import Metric
from fleetd.store.audit import unchained
from fleetd.store.certificates import CertificateRow, CertificateState, PauseRow, RevocationListRow
from fleetd.store.checks import CheckRow
from fleetd.store.endorsement_keys import waiting_count
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import Mark, ReportRow
from fleetd.store.runs import RunRow

BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 604800)
"""Upper bounds of durations, seconds."""
DAYS = (7, 30)
HINTS_MARK = "webhook-hints"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric under its labels."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Distribution:
    """Durations under one set of labels: how many in each bucket, the last one beyond all bounds, and their sum."""

    metric: Metric
    labels: tuple[str, ...]
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0


def samples(session: Session, now: datetime, issuers: dict[str, str]) -> Iterator[Sample]:
    """Yield every number but the durations; `issuers` names authorities by their fingerprint."""
    yield from _fleet(session)
    yield from _service(session, now)
    yield from _trust(session, now, issuers)


def _fleet(session: Session) -> Iterator[Sample]:
    present = MachineRow.vanished.is_(False)
    by_phase = (
        select(MachineRow.phase, MachineRow.machine_class, func.count())
        .where(present)
        .group_by(MachineRow.phase, MachineRow.machine_class)
    )
    for phase, machine_class, count in session.execute(by_phase):
        yield Sample(names.MACHINES, count, (phase, machine_class))
    open_runs = select(RunRow.kind, RunRow.state_name, func.count()).where(RunRow.ended_at.is_(None))
    for kind, state, count in session.execute(open_runs.group_by(RunRow.kind, RunRow.state_name)):
        yield Sample(names.RUNS_OPEN, count, (kind, state))
    held = select(func.count()).select_from(RunRow).where(RunRow.ended_at.is_(None), RunRow.outage_seconds > 0)
    yield Sample(names.RUNS_HELD_UP, session.scalar(held) or 0)
    ended = select(RunRow.kind, RunRow.outcome, RunRow.code, func.count()).where(RunRow.ended_at.is_not(None))
    for kind, outcome, code, count in session.execute(ended.group_by(RunRow.kind, RunRow.outcome, RunRow.code)):
        yield Sample(names.RUNS, count, (kind, outcome, code))


def _service(session: Session, now: datetime) -> Iterator[Sample]:
    due = select(func.count(), func.min(MachineRow.next_look_at)).where(MachineRow.next_look_at <= now)
    count, oldest = session.execute(due).one()
    yield Sample(names.LOOKS_DUE, count)
    yield Sample(names.OLDEST_LOOK, _age(oldest, now))
    marks = {mark.name: mark for mark in session.scalars(select(Mark))}
    for metric, name in ((names.SWEEP_AGE, SWEPT), (names.POLL_AGE, POLLED)):
        if name in marks:
            yield Sample(metric, _age(marks[name].at, now))
    yield Sample(names.HINTS, float(marks[HINTS_MARK].value) if HINTS_MARK in marks else 0)
    yield Sample(names.MALFORMED, _malformed(marks))
    count, oldest = session.execute(select(func.count(), func.min(ReportRow.created_at))).one()
    yield Sample(names.REPORTS, count)
    yield Sample(names.OLDEST_REPORT, _age(oldest, now))
    yield Sample(names.UNCHAINED, unchained(session))


def _malformed(marks: dict[str, Mark]) -> int:
    """Records that the last poll could not use; a later poll without any makes it zero."""
    mark, polled = marks.get(MALFORMED_MARK), marks.get(POLLED)
    if mark is None or (polled is not None and polled.at > mark.at):
        return 0
    return len(json.loads(mark.value))


def _trust(session: Session, now: datetime, issuers: dict[str, str]) -> Iterator[Sample]:
    active = (MachineRow.standing == "active", MachineRow.vanished.is_(False))
    states = select(MachineRow.check_state, func.count()).where(*active).group_by(MachineRow.check_state)
    for state, count in session.execute(states):
        yield Sample(names.CHECKS, count, (state,))
    oldest = select(func.min(CheckRow.last_ok)).join(MachineRow, MachineRow.id == CheckRow.machine_id).where(*active)
    yield Sample(names.OLDEST_CHECK, _age(session.scalar(oldest), now))
    yield Sample(names.KEYS_WAITING, waiting_count(session))
    for days in DAYS:
        yield Sample(names.EXPIRING, session.scalar(_expiring(now, days)) or 0, (str(days),))
    for row in session.scalars(select(RevocationListRow)):
        labels = (issuers.get(row.issuer, "retired"),)
        yield Sample(names.LIST_AGE, _age(row.this_update, now), labels)
        yield Sample(names.LIST_END, row.next_update.timestamp(), labels)
    yield Sample(names.PAUSED, float(session.get(PauseRow, 1) is not None))


def _expiring(now: datetime, days: int) -> Any:
    """Certificates of installed systems; one that a newer one of its kind has followed needs no care."""
    newer = aliased(CertificateRow)
    followed = (
        select(newer.serial)
        .where(
            newer.machine_id == CertificateRow.machine_id,
            newer.kind == CertificateRow.kind,
            newer.state == CertificateState.ISSUED,
            newer.not_after > now + timedelta(days=days),
        )
        .exists()
    )
    return select(func.count()).where(
        CertificateRow.state == CertificateState.ISSUED,
        CertificateRow.revoked_at.is_(None),
        CertificateRow.not_after > now,
        CertificateRow.not_after <= now + timedelta(days=days),
        ~followed,
    )


def distributions(session: Session) -> list[Distribution]:
    """Return the durations of ended runs, and of the states that they were in."""
    spent = func.extract("epoch", RunRow.ended_at - RunRow.opened_at)
    bucket = _bucket(spent)
    runs = select(RunRow.kind, RunRow.outcome, bucket, func.count(), func.sum(spent)).where(
        RunRow.ended_at.is_not(None)
    )
    found: dict[tuple[str, tuple[str, ...]], Distribution] = {}
    for kind, outcome, index, count, total in session.execute(runs.group_by(RunRow.kind, RunRow.outcome, bucket)):
        _add(found, names.RUN_DURATION, (kind, outcome), index, count, total)
    for state, index, count, total in session.execute(_STEPS, {"bounds": [float(bound) for bound in BUCKETS]}):
        _add(found, names.PHASE_DURATION, (state,), index, count, total)
    return list(found.values())


_STEPS = text("""
    SELECT step->>'name', width_bucket(seconds, :bounds), count(*), sum(seconds)
    FROM runs CROSS JOIN LATERAL jsonb_array_elements(runs.steps) AS step
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM (step->>'ended')::timestamptz - (step->>'started')::timestamptz)::float8 AS seconds
    ) AS took
    WHERE runs.ended_at IS NOT NULL AND step->>'ended' IS NOT NULL
    GROUP BY 1, 2
""").bindparams(bindparam("bounds", type_=ARRAY(Float)))


def _bucket(seconds: Any) -> ColumnElement[int]:
    bounds = bindparam("run_bounds", [float(bound) for bound in BUCKETS], type_=ARRAY(Float), unique=False)
    made: ColumnElement[int] = func.width_bucket(func.cast(seconds, Float), bounds)
    return made


def _add(
    found: dict[tuple[str, tuple[str, ...]], Distribution],
    metric: Metric,
    labels: tuple[str, ...],
    index: int,
    count: int,
    total: Any,
) -> None:
    one = found.setdefault((metric.name, labels), Distribution(metric, labels))
    one.counts[index] += count
    one.total += float(total)


def _age(then: datetime | None, now: datetime) -> float:
    return max(0.0, (now - then).total_seconds()) if then is not None else 0.0
