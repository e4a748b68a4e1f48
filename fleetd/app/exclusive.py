"""Work that only one process does at a time, without a transaction open meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from fleetd.app.world import World

REPORTS = 0x666C_7270
POLL = 0x666C_706C
RESERVATIONS = 0x666C_726B


@contextmanager
def exclusive(world: World, lock: int) -> Iterator[bool]:
    """Yield whether this process has the lock; it ends with the block, or with the connection."""
    with world.sessions() as session:
        connection = session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        mine = bool(connection.scalar(select(func.pg_try_advisory_lock(lock))))
        try:
            yield mine
        finally:
            if mine:
                connection.execute(select(func.pg_advisory_unlock(lock)))


@contextmanager
def in_turn(sessions: sessionmaker[Session], lock: int) -> Iterator[None]:
    """Wait until this process has the lock; it ends with the block, or with the connection."""
    with sessions() as session:
        connection = session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        connection.execute(select(func.pg_advisory_lock(lock)))
        try:
            yield
        finally:
            connection.execute(select(func.pg_advisory_unlock(lock)))
