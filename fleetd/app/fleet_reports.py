"""What NetBox is told that belongs to no machine: the classes in force, and TPMs that nobody knows."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from fleetd.app.certificate_reports import key_row
from fleetd.app.stamps import stamp
from fleetd.core.classes import ClassBook
from fleetd.ports import Clock, Inventory
from fleetd.store.endorsement_keys import mark_reported, unreported_keys
from fleetd.store.outbox import read_mark, write_mark

_CLASSES = "classes-reported"
_AGAIN = timedelta(minutes=10)
"""Classes are told again after this: NetBox may have been restored."""
_KEYS = 200


@dataclass(frozen=True, slots=True)
class FleetReporter:
    """Tells NetBox about the fleet as a whole."""

    sessions: sessionmaker[Session]
    inventory: Inventory
    classes: Callable[[], ClassBook]
    clock: Clock
    version: str

    def send(self) -> None:
        """Tell what is new; nothing where nothing is. Raises OutageError and RefusedError."""
        now = self.clock.now()
        book = self.classes()
        with self.sessions() as session:
            told = read_mark(session, _CLASSES)
            keys = [row for row in unreported_keys(session, _KEYS) if row.machine_id is None]
        body: dict[str, Any] = {"reports": [], "service": {"version": self.version}}
        if self._due(told, book, now):
            body["classes"] = [found.as_report() for found in book]
        if keys:
            body["endorsement_keys"] = [{**key_row(row), "candidates": row.candidates} for row in keys]
        if len(body) == 2:
            return
        self.inventory.report(body)
        for row in keys:
            # Each by itself: an enrollment takes the keys of its TPM in their order.
            with self.sessions.begin() as session:
                mark_reported(session, [row.public_hash])
        if "classes" in body:
            with self.sessions.begin() as session:
                write_mark(session, _CLASSES, f"{book.digest} {stamp(now)}", now)

    def _due(self, told: str | None, book: ClassBook, now: datetime) -> bool:
        if told is None:
            return True
        digest, _, when = told.partition(" ")
        return digest != book.digest or now - datetime.fromisoformat(when) >= _AGAIN
