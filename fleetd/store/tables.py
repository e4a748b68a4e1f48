"""Every table of the store: importing this module registers all of them, for migrations and tests."""

import importlib
import pkgutil

import fleetd.store
from fleetd.store.schema import Base

for _module in pkgutil.iter_modules(fleetd.store.__path__):
    if _module.name not in {"tables", "migrate", "migrations"}:
        importlib.import_module(f"fleetd.store.{_module.name}")

METADATA = Base.metadata
"""All tables, by name."""
