"""Carries connections of one machine to a service of the host, from the machine's own loopback address.

fleetd counts and caps by address, so each machine of the lab has one: any 127.x.y.z can be a source (Linux).
Run as a program it serves the one connection on its standard input, which is how QEMU starts it (`guestfwd`).
"""

import contextlib
import selectors
import socket
import sys
import threading
from collections.abc import Iterator

_BLOCK = 1 << 16


def dial(source: str, target: tuple[str, int]) -> socket.socket:
    """Connect to the target from the source address, with no limit on how long it may then be silent."""
    return socket.create_connection(target, timeout=30, source_address=(source, 0))


def pump(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both directions have ended; an end is passed on as an end, not as a reset."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while ready.get_map():
            for key, _ in ready.select():
                source, sink = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                try:
                    data = source.recv(_BLOCK)
                    sink.sendall(data)
                except OSError:
                    return
                if not data:
                    ready.unregister(source)
                    with contextlib.suppress(OSError):
                        sink.shutdown(socket.SHUT_WR)


class Forwarder:
    """Listens on a loopback port and carries each connection to the target from the given source address."""

    def __init__(self, source: str, target: tuple[str, int]) -> None:
        self._source = source
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name=f"forwarder {source}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; what is under way goes on until its ends close it."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        for client in _connections(self._listener):
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), dial(self._source, self._target) as server:
            server.settimeout(None)
            pump(client, server)


def _connections(listener: socket.socket) -> Iterator[socket.socket]:
    while True:
        try:
            yield listener.accept()[0]
        except OSError:
            return


def main(arguments: list[str]) -> int:
    """Serve the connection on standard input: SOURCE TARGET PORT."""
    source, host, port = arguments
    with socket.socket(fileno=0) as client:
        try:
            server = dial(source, (host, int(port)))
        except OSError:
            return 1
        with server:
            server.settimeout(None)
            pump(client, server)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
