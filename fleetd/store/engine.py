"""Connections to PostgreSQL."""

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session, sessionmaker


def open_engine(url: str, *, pool_size: int = 5) -> Engine:
    """Return an engine for a `postgresql+psycopg://` URL; connections are checked before use."""
    return create_engine(url, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True, pool_recycle=1800)


def session_factory(engine: Engine) -> sessionmaker[Session]:
    """Return a factory of sessions whose objects stay readable after commit."""
    return sessionmaker(engine, expire_on_commit=False)
