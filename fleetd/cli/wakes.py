"""How a process that serves tells a worker to look at a machine: a message that may be lost, sent from a thread of its own."""

import queue
import threading
from collections.abc import Callable

from sqlalchemy.orm import Session, sessionmaker

from fleetd.core.names import MachineId
from fleetd.metrics.rows import HINTS_MARK
from fleetd.ports import Clock
from fleetd.store.machines import wake as wake_row
from fleetd.store.outbox import count_mark

_WAITING = 1000
"""Messages that wait for the broker; more are dropped: the sweep finds those machines."""


class Waker:
    """Sends wakes without holding a request up when the broker is slow or away."""

    def __init__(self, send: Callable[[MachineId], None], poll: Callable[[], None]) -> None:
        self._send = send
        self._poll = poll
        self._messages: queue.Queue[MachineId | None] = queue.Queue(_WAITING)
        threading.Thread(target=self._work, name="wakes", daemon=True).start()

    def wake(self, machine: MachineId) -> None:
        """Ask for a look soon."""
        self._put(machine)

    def poll(self) -> None:
        """Ask for a poll of NetBox soon."""
        self._put(None)

    def _put(self, message: MachineId | None) -> None:
        try:
            self._messages.put_nowait(message)
        except queue.Full:
            return

    def _work(self) -> None:
        while True:
            message = self._messages.get()
            if message is None:
                self._poll()
            else:
                self._send(message)


def waker() -> Waker:
    """Return a waker over Celery; neither of its calls raises."""
    from fleetd import broker

    return Waker(broker.wake, broker.ask_for_poll)


def hint_of(made: Waker, sessions: sessionmaker[Session], clock: Clock) -> Callable[[int | None], None]:
    """Return what NetBox's webhook does: ask for the declarations, and for a look at the machine that it names."""

    def hint(machine: int | None) -> None:
        made.poll()
        with sessions.begin() as session:
            count_mark(session, HINTS_MARK, clock.now())
            if machine is not None:
                wake_row(session, MachineId(machine), clock.now())
        if machine is not None:
            made.wake(MachineId(machine))

    return hint
