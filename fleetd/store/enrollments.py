"""Enrollments: who proved what and when, and the keys of the present install of each machine."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Index, LargeBinary, String, delete, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.store.schema import Base


class EnrollmentRow(Base):
    """One TPM exchange in HookOS of a machine whose EK is approved."""

    __tablename__ = "enrollment"
    __table_args__ = (Index("ix_enrollment_machine_made", "machine_id", "made"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    machine_id: Mapped[int] = mapped_column(BigInteger)
    run_id: Mapped[UUID | None] = mapped_column(index=True)
    address: Mapped[str] = mapped_column(String(64), default="")
    made: Mapped[datetime]
    verified: Mapped[bool]
    """Whether a session was given: identity and keys proven, and the run's demands met."""
    ek_hash: Mapped[str] = mapped_column(String(64))
    ek_name: Mapped[bytes] = mapped_column(LargeBinary)
    lak_public: Mapped[bytes] = mapped_column(LargeBinary)
    lak_name: Mapped[bytes] = mapped_column(LargeBinary)
    lak_unique: Mapped[bytes] = mapped_column(LargeBinary)
    ldevid_public: Mapped[bytes] = mapped_column(LargeBinary)
    ldevid_private: Mapped[bytes] = mapped_column(LargeBinary)
    """Wrapped by the TPM's storage key: worthless elsewhere."""
    facts: Mapped[dict[str, Any]] = mapped_column(JSONB)
    findings: Mapped[list[Any]] = mapped_column(JSONB)
    pcrs: Mapped[dict[str, Any]] = mapped_column(JSONB)
    pcr_digest: Mapped[str] = mapped_column(String(128))
    boot_judged: Mapped[bool] = mapped_column(default=False)
    secure_boot: Mapped[bool | None]
    counter: Mapped[int] = mapped_column(BigInteger, default=0)
    """The highest session counter seen."""
    closed: Mapped[bool] = mapped_column(default=False)
    reported: Mapped[bool] = mapped_column(default=False, index=True)


class InstallRow(Base):
    """The keys of an install of a machine: what checks and redemptions are verified with.

    A provision run stages its keys; they take the place of the present ones when the disk may be erased, so that a run
    that ends before leaves the old system's checks as they were.
    """

    __tablename__ = "install"

    machine_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    staged: Mapped[bool] = mapped_column(primary_key=True)
    run_id: Mapped[UUID | None]
    enrollment_id: Mapped[UUID]
    ek_hash: Mapped[str] = mapped_column(String(64))
    lak_public: Mapped[bytes] = mapped_column(LargeBinary)
    lak_name: Mapped[bytes] = mapped_column(LargeBinary)
    lak_unique: Mapped[bytes] = mapped_column(LargeBinary)
    ldevid_public: Mapped[bytes] = mapped_column(LargeBinary)
    ldevid_private: Mapped[bytes] = mapped_column(LargeBinary)
    since: Mapped[datetime]


def current_install(session: Session, machine: int) -> InstallRow | None:
    """Return the keys of the machine's present install."""
    return session.get(InstallRow, (machine, False))


def install_of_run(session: Session, machine: int, run: UUID) -> InstallRow | None:
    """Return the keys that this run made, staged or present."""
    query = select(InstallRow).where(InstallRow.machine_id == machine, InstallRow.run_id == run)
    return session.scalar(query.order_by(InstallRow.staged.desc()).limit(1))


def put_install(session: Session, row: InstallRow) -> None:
    """Write the keys in place of those that stood there."""
    session.merge(row)


def promote_install(session: Session, machine: int, run: UUID) -> None:
    """Make the staged keys of this run the present ones; nothing where they are already."""
    staged = session.get(InstallRow, (machine, True), with_for_update=True)
    if staged is None or staged.run_id != run:
        return
    session.execute(delete(InstallRow).where(InstallRow.machine_id == machine, InstallRow.staged.is_(False)))
    session.execute(update(InstallRow).where(InstallRow.machine_id == machine).values(staged=False))
    session.expire_all()


def forget_installs(session: Session, machine: int) -> None:
    """Forget the machine's keys: it was wiped or retired, and nothing signed by them counts any more."""
    session.execute(delete(InstallRow).where(InstallRow.machine_id == machine))


def latest_enrollment(session: Session, machine: int, run: UUID | None) -> EnrollmentRow | None:
    """Return the newest verified enrollment of the machine in this run."""
    query = select(EnrollmentRow).where(EnrollmentRow.machine_id == machine, EnrollmentRow.verified)
    query = query.where(EnrollmentRow.run_id == run if run is not None else EnrollmentRow.run_id.is_(None))
    return session.scalar(query.order_by(EnrollmentRow.made.desc()).limit(1))


def newest_facts(session: Session, machine: int) -> dict[str, Any] | None:
    """Return what the machine said of itself in its newest verified enrollment; None where it never did."""
    query = select(EnrollmentRow.facts).where(EnrollmentRow.machine_id == machine, EnrollmentRow.verified)
    return session.scalar(query.order_by(EnrollmentRow.made.desc()).limit(1))


def advance_counter(session: Session, enrollment: UUID, counter: int) -> bool:
    """Take a session counter; False when it does not exceed the last one."""
    taken = session.execute(
        update(EnrollmentRow)
        .where(EnrollmentRow.id == enrollment, EnrollmentRow.counter < counter)
        .values(counter=counter)
        .returning(EnrollmentRow.id)
    ).scalar()
    return taken is not None
