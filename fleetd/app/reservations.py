"""DHCP reservations kept as NetBox declares them: written on change, Kea told, and what is left out named."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import or_, select
from sqlalchemy.orm import Session, sessionmaker

from fleetd.app.exclusive import RESERVATIONS, in_turn
from fleetd.app.rows import declaration_of
from fleetd.core.declaration import Declaration
from fleetd.core.findings.lifecycle import NoReservation
from fleetd.core.names import MachineId
from fleetd.core.reservations import Reserved, reserve
from fleetd.ports import Clock, DhcpServer
from fleetd.store.machines import MachineRow, wake
from fleetd.store.outbox import read_mark, write_mark

LEFT_OUT = "reservations-left-out"
UNTOLD = "reservations-untold"
"""Set while files changed that the DHCP server has not read yet: a crash in between tells it later."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeptReservations:
    """Keeps the DHCP server's reservations; idempotent, and safe to call from several processes."""

    sessions: sessionmaker[Session]
    clock: Clock
    server: DhcpServer

    def keep(self) -> int:
        """Bring the reservations to what is declared; return how many subnets changed.

        Raises OutageError and RefusedError; the next call tries again.
        """
        return self._keep(without=frozenset())

    def remove(self, machine: MachineId) -> None:
        """Take a machine's reservations away now: its power is verified off, and its address may be given to another.

        Later calls of `keep` leave it out as soon as its standing is retired. Raises OutageError and RefusedError.
        """
        self._keep(without=frozenset({machine}))

    def _keep(self, without: frozenset[MachineId]) -> int:
        if not self.server.subnets:
            return 0
        with in_turn(self.sessions, RESERVATIONS):
            with self.sessions() as session:
                untold = bool(read_mark(session, UNTOLD))
                found = reserve(_declared(session, without), self.server.subnets)
            changed = [subnet for subnet, rows in found.subnets.items() if self.server.differs(subnet, rows)]
            if changed:
                self._mark_untold("yes")
            for subnet in changed:
                self.server.put(subnet, found.subnets[subnet])
            self._name_left_out(found)
            if changed or untold:
                self.server.reload()
                self._mark_untold("")
        return len(changed)

    def _mark_untold(self, value: str) -> None:
        with self.sessions.begin() as session:
            write_mark(session, UNTOLD, value, self.clock.now())

    def _name_left_out(self, found: Reserved) -> None:
        """Remember who is left out; those of whom this is news are looked at, so that NetBox shows it."""
        told = {str(machine): why for machine, why in found.left_out.items()}
        now = self.clock.now()
        with self.sessions.begin() as session:
            before = left_out(session)
            if told == before:
                return
            write_mark(session, LEFT_OUT, json.dumps(told), now)
            for number in told.keys() | before.keys():
                if told.get(number) != before.get(number):
                    wake(session, MachineId(int(number)), now)
        for machine, why in told.items():
            if before.get(machine) != why:
                _log.warning("no DHCP reservation", machine=machine, why=why)


def left_out(session: Session) -> dict[str, str]:
    """Return why machines have no reservation, by machine id."""
    known: dict[str, str] = json.loads(read_mark(session, LEFT_OUT) or "{}")
    return known


def reservation_findings(session: Session, machine: int) -> list[Any]:
    """Return the finding of a machine that is left out, or nothing."""
    why = left_out(session).get(str(machine))
    return [NoReservation(why).as_dict()] if why else []


def _declared(session: Session, without: frozenset[MachineId]) -> Iterable[Declaration]:
    """Return what is declared of all machines but retired ones; a vanished record keeps its reservation."""
    rows = select(MachineRow).where(or_(MachineRow.standing != "retired", MachineRow.run_open))
    for row in session.scalars(rows):
        declared = declaration_of(row)
        if declared is not None and row.id not in without:
            yield declared
