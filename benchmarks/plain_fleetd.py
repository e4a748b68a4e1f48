"""fleetd's own database with durable storage and nothing in it: what the benchmarks of its rows begin with."""

import os
from contextlib import ExitStack

from sqlalchemy import Engine

from fleet_lab.bringup import clean
from fleet_lab.places import Places
from fleet_lab.services.postgres import start_postgres
from fleetd.store.engine import open_engine
from fleetd.store.migrate import upgrade


def plain_fleetd(name: str, stack: ExitStack) -> tuple[Places, Engine]:
    """Start PostgreSQL and make fleetd's tables; all of it stops, and is removed, with the stack."""
    places = Places(f"bench-{name}-{os.getpid()}")
    stack.callback(clean, places)
    postgres = start_postgres(places, durable=True)
    stack.callback(postgres.stop)
    postgres.create("fleet")
    upgrade(postgres.url("fleet"))
    engine = open_engine(postgres.url("fleet"))
    stack.callback(engine.dispose)
    return places, engine
