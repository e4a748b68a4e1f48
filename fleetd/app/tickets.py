"""What the reconcile side takes back: tickets, and with the certificates the keys of the install."""

from dataclasses import dataclass

from sqlalchemy.orm import Session, sessionmaker

from fleetd.app.world import Authority
from fleetd.core.names import MachineId, RunId
from fleetd.store.enrollments import forget_installs
from fleetd.store.tickets import burn_tickets


@dataclass(frozen=True, slots=True)
class StoredTickets:
    """The tickets in the store."""

    sessions: sessionmaker[Session]

    def void(self, machine: MachineId, run: RunId) -> None:
        """Make every ticket of the machine worthless; idempotent."""
        del run
        with self.sessions.begin() as session:
            burn_tickets(session, machine, "the run ended")


@dataclass(frozen=True, slots=True)
class WithdrawingAuthority:
    """An authority whose revocation also spends the LAK: nothing that the old install signs counts any more."""

    authority: Authority
    sessions: sessionmaker[Session]

    def revoke(self, machine: MachineId, reason: str) -> None:
        """Revoke every certificate of the machine and forget its keys."""
        self.authority.revoke(machine, reason)
        with self.sessions.begin() as session:
            forget_installs(session, machine)

    def hold(self, machine: MachineId) -> None:
        """Put every certificate of the machine on hold."""
        self.authority.hold(machine)

    def release(self, machine: MachineId) -> None:
        """Lift the hold."""
        self.authority.release(machine)
