"""A NetBox with the plugin and durable storage, without fleetd: what the benchmarks of the plugin measure."""

import os
from contextlib import ExitStack

from fleet_lab.bringup import clean
from fleet_lab.places import Places
from fleet_lab.services.netbox import NetBox, make_netbox
from fleet_lab.services.postgres import Postgres, start_postgres
from fleet_lab.services.valkey import start_valkey


def plain_netbox(name: str, stack: ExitStack) -> tuple[Places, Postgres, NetBox]:
    """Start PostgreSQL and Valkey and make a NetBox, not started yet; all of it stops, and is removed, with the stack."""
    places = Places(f"bench-{name}-{os.getpid()}")
    stack.callback(clean, places)
    postgres = start_postgres(places, durable=True)
    stack.callback(postgres.stop)
    valkey = start_valkey(places)
    stack.callback(valkey.stop)
    netbox = make_netbox(places, postgres, valkey)
    stack.callback(netbox.stop)
    return places, postgres, netbox
