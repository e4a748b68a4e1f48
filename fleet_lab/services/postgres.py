"""A private PostgreSQL cluster: a UNIX socket, no TCP port, an unprivileged user, gone when stopped."""

import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fleet_lab.places import LabError, Places
from fleet_lab.services.process import Child

_OWNER = "postgres"  # who runs the server when we are root: initdb refuses root


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running cluster; `user` is its superuser, reached through the socket folder without a password."""

    child: Child
    sockets: Path
    binaries: Path
    user: str = "fleet"

    def url(self, database: str) -> str:
        """Return the SQLAlchemy address of a database."""
        return f"postgresql+psycopg://{self.user}@/{database}?host={self.sockets}"

    def run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one of PostgreSQL's client programs against the cluster.

        Raises LabError with the program's own words when it fails and `check` is true.
        """
        command = [str(self.binaries / program), "-h", str(self.sockets), "-U", self.user, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise LabError(f"{program} {' '.join(arguments)} failed: {done.stderr.strip()[-800:]}")
        return done

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run one statement and return its unaligned output."""
        return self.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statement).stdout.strip()

    def exists(self, database: str) -> bool:
        """Tell whether a database is there."""
        return self.sql(f"select 1 from pg_database where datname = '{database}'") == "1"  # noqa: S608

    def create(self, database: str, template: str = "template0") -> None:
        """Make a database, as a copy of another."""
        self.sql(f'create database "{database}" template "{template}"')

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected; absent is fine."""
        self.sql(f'drop database if exists "{database}" with (force)')

    def stop(self) -> None:
        """Stop the server fast: connections end, nothing committed is lost."""
        self.child.stop(30, signal.SIGINT)

    def kill(self) -> None:
        """End the server as a power cut would."""
        self.child.kill()


def start_postgres(places: Places, *, durable: bool = False) -> Postgres:
    """Start the lab's cluster, made on first use.

    `durable` keeps fsync on; tests do without. Raises LabError when PostgreSQL 15 or newer is missing or does not start.
    """
    binaries = _binaries()
    data = places.database
    sockets = places.sockets / "pg"
    for folder, mode in ((data.parent, None), (data, 0o700), (sockets, 0o700)):
        _owned(folder, mode)
    if os.getuid() == 0:
        places.sockets.chmod(0o711)
    cluster = data / "cluster"
    if not (cluster / "PG_VERSION").exists():
        shutil.rmtree(cluster, ignore_errors=True)
        made = subprocess.run(
            [
                *_as_owner(),
                str(binaries / "initdb"),
                "-D",
                str(cluster),
                "-U",
                "fleet",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
            ]
            + ([] if durable else ["--no-sync"]),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if made.returncode:
            raise LabError(f"initdb failed in {cluster}: {made.stderr.strip()[-800:]}")
    options = [
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={sockets}",
        "-c",
        "max_connections=200",
        "-c",
        "jit=off",
    ]
    if not durable:
        options += ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
    _clear_stale_lock(cluster)
    child = Child(
        "PostgreSQL",
        [*_as_owner(), str(binaries / "postgres"), "-D", str(cluster), *options],
        places.state / "postgres.log",
        cwd=Path("/"),
    ).start()
    running = Postgres(child, sockets, binaries)
    child.wait_until(lambda: running.run("pg_isready", "-q", "-d", "postgres", check=False).returncode == 0)
    return running


def _binaries() -> Path:
    found = sorted(
        (path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        key=lambda path: int(path.parent.name),
    )
    if not found or int(found[-1].parent.name) < 15:
        raise LabError("PostgreSQL 15 or newer is missing: run scripts/bootstrap, or apt-get install postgresql")
    return found[-1]


def _as_owner() -> list[str]:
    """Return the prefix that runs a command as the server's user; empty when we are not root."""
    if os.getuid() != 0:
        return []
    owner = pwd.getpwnam(_OWNER)
    return [
        "setpriv",
        f"--reuid={owner.pw_uid}",
        f"--regid={owner.pw_gid}",
        "--clear-groups",
        "--pdeathsig=SIGTERM",
        "--",
    ]


def _owned(folder: Path, mode: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if mode is None:
        return
    folder.chmod(mode)
    if os.getuid() == 0:
        owner = pwd.getpwnam(_OWNER)
        os.chown(folder, owner.pw_uid, owner.pw_gid)


def _clear_stale_lock(cluster: Path) -> None:
    """Remove a lock that a killed server left, when its process is gone or is no PostgreSQL."""
    lock = cluster / "postmaster.pid"
    if not lock.exists():
        return
    pid = int(lock.read_text().split("\n", 1)[0])
    name = Path(f"/proc/{pid}/comm")
    if name.exists() and name.read_text().strip() == "postgres":
        raise LabError(f"the lab's PostgreSQL already runs as process {pid}: stop the other lab of this checkout first")
    lock.unlink()
