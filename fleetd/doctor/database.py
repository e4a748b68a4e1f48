"""PostgreSQL and the broker."""

import redis
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from fleetd.config import Settings
from fleetd.doctor.notes import Notes, broken, good, short
from fleetd.secret_files import SecretFileError
from fleetd.store.revision import revision, revision_problem

OLDEST_SERVER = 150000
"""PostgreSQL 15."""
_WAIT = 5
_DATABASE, _BROKER = "database", "broker"


def database(settings: Settings) -> Notes:
    """Reach PostgreSQL, and compare its tables with those that this version needs."""
    try:
        engine = create_engine(settings.database.address(), connect_args={"connect_timeout": _WAIT})
    except SecretFileError as error:
        yield broken(_DATABASE, f"the password file cannot be used: {error}", "Correct database.password_file.")
        return
    try:
        with engine.connect() as connection:
            yield from _server(connection)
            yield from _tables(connection)
    except OperationalError as error:
        yield broken(
            _DATABASE,
            f"PostgreSQL cannot be used: {short(error.orig or error)}",
            "Start it, or correct database.url and database.password_file.",
        )
    except SQLAlchemyError as error:
        yield broken(_DATABASE, short(error), "Check the rights of fleetd's account on its database.")
    finally:
        engine.dispose()


def _server(connection: Connection) -> Notes:
    number = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if number < OLDEST_SERVER:
        yield broken(_DATABASE, f"PostgreSQL {number // 10000} is too old", "Use PostgreSQL 15 or newer.")
    if connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one():
        yield broken(_DATABASE, "this server is a standby and takes no writes", "Point database.url to the primary.")


def _tables(connection: Connection) -> Notes:
    at = revision(connection)
    problem = revision_problem(at)
    yield broken(_DATABASE, *problem) if problem else good(_DATABASE, f"reached, tables at revision {at}")


def broker(settings: Settings) -> Notes:
    """Reach Valkey or Redis."""
    try:
        client = redis.Redis.from_url(settings.broker.address(), socket_connect_timeout=_WAIT, socket_timeout=_WAIT)
    except (SecretFileError, ValueError) as error:
        yield broken(_BROKER, short(error), "Correct broker.url and broker.password_file.")
        return
    try:
        client.ping()
    except (redis.AuthenticationError, redis.ResponseError) as error:
        yield broken(_BROKER, f"the password is refused: {short(error)}", "Correct broker.password_file.")
    except redis.RedisError as error:
        yield broken(
            _BROKER,
            f"Valkey cannot be reached: {short(error)}",
            "Start it, or correct broker.url. Until then machines wait for the next sweep, and nothing is lost.",
        )
    else:
        yield good(_BROKER, "reached")
    finally:
        client.close()
