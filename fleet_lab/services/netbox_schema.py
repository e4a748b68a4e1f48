"""NetBox's schema as PostgreSQL template databases, kept as dumps: its 336 migrations run once for a user, not a lab.

Data: one template for core's tables, one for core's and the plugin's. A dump is named by NetBox's version and, for the
plugin, by a digest of its migrations, so a changed migration is another dump and nothing has to be invalidated.
Failure: a dump that this PostgreSQL cannot restore is made again.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fleet_lab.places import CHECKOUT, cache
from fleet_lab.services.postgres import Postgres

_KEPT_DUMPS: Final = 3
"""How many dumps with the plugin's tables stay in the cache, the newest first: a developer changes branches."""

_CORE: Final = "netbox_core"


@dataclass(frozen=True, slots=True)
class Schema:
    """Where the templates are made; `migrate(database, plugins)` runs NetBox's migrations on a database."""

    postgres: Postgres
    migrate: Callable[[str, tuple[str, ...]], None]
    progress: Callable[[str], None] = lambda _: None

    def template(self, *, plugin: bool) -> str:
        """Return the name of a template database with core's tables, and with the plugin's; made when it is missing.

        One at a time makes one, whatever lab it is for: the others wait and then find the dump.
        """
        with (cache() / "netbox-schema.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._with_plugin() if plugin else self._core()

    def _core(self) -> str:
        if not self.postgres.exists(_CORE):
            dump = cache() / f"netbox-{version('netbox')}.dump"
            if not self._restored(_CORE, dump):
                self.progress("running NetBox's 336 migrations: 4 to 6 minutes, once for this user")
                self._made(_CORE, dump, "template0", ())
        return _CORE

    def _with_plugin(self) -> str:
        digest = _migrations_digest()
        name = f"netbox_fleet_{digest}"
        if not self.postgres.exists(name):
            dump = _dump_with_plugin(digest)
            if not self._restored(name, dump):
                core = self._core()
                self.progress("running the plugin's migrations: half a minute, until they change")
                self._made(name, dump, core, ("netbox_fleet",))
                _forget_old_dumps()
        return name

    def _restored(self, name: str, dump: Path) -> bool:
        if not dump.exists():
            return False
        self.progress("restoring NetBox's schema from the cache")
        building = self._fresh(name, "template0")
        done = self.postgres.run("pg_restore", "-j2", "--no-owner", "-d", building, str(dump), check=False)
        if done.returncode:
            return False  # made by a newer PostgreSQL, or damaged
        self._ready(building, name)
        return True

    def _made(self, name: str, dump: Path, start: str, plugins: tuple[str, ...]) -> None:
        building = self._fresh(name, start)
        self.migrate(building, plugins)
        written = dump.with_suffix(f".{os.getpid()}")
        self.postgres.run("pg_dump", "-Fc", "--no-owner", "-f", str(written), building)
        written.replace(dump)
        self._ready(building, name)

    def _fresh(self, name: str, start: str) -> str:
        building = f"{name}_building"
        self.postgres.drop(building)
        self.postgres.create(building, start)
        return building

    def _ready(self, building: str, name: str) -> None:
        self.postgres.sql(f'alter database "{building}" rename to "{name}"')


def is_cached() -> bool:
    """Tell whether the cache has the schema of this version of NetBox with the plugin."""
    return _dump_with_plugin(_migrations_digest()).exists()


def _dump_with_plugin(digest: str) -> Path:
    return cache() / f"netbox-{version('netbox')}-fleet-{digest}.dump"


def _migrations_digest() -> str:
    whole = hashlib.sha256(version("netbox").encode())
    for path in sorted((CHECKOUT / "netbox_fleet" / "migrations").glob("*.py")):
        whole.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:12]


def _forget_old_dumps() -> None:
    dumps = sorted(cache().glob("netbox-*-fleet-*.dump"), key=lambda path: path.stat().st_mtime, reverse=True)
    for dump in dumps[_KEPT_DUMPS:]:
        dump.unlink(missing_ok=True)
