"""Running the listeners: TLS 1.2 or later, one deadline a connection, certificates followed on disk."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from fleetd.http.tls import FollowedTls

_log = structlog.get_logger(__name__)
_LOOK_AT_FILES = 10.0
_KEEP_ALIVE = 15
_HEADERS = 32 * 1024


@dataclass(frozen=True, slots=True)
class Listening:
    """One listener: an application on a socket, with TLS where files are given."""

    app: FastAPI
    host: str
    port: int
    connections: int
    connection_deadline: float
    tls: FollowedTls | None = None


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs several of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture nothing."""
        yield


def protocol(seconds: float) -> type[H11Protocol]:
    """Return the HTTP protocol that cuts a connection off when its time is over, whatever it is doing."""

    class BoundedProtocol(H11Protocol):
        """HTTP/1.1 with an end."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._end = self.loop.call_later(seconds, transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            self._end.cancel()
            super().connection_lost(exc)

    return BoundedProtocol


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that several processes may share the port of. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listening.bind((host, port))
    return listening


def run_listeners(listeners: Sequence[Listening]) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError when a port is taken."""
    sockets = [bound_socket(item.host, item.port) for item in listeners]
    asyncio.run(_serve(listeners, sockets))


async def _serve(listeners: Sequence[Listening], sockets: Sequence[socket.socket]) -> None:
    servers = [_server(item) for item in listeners]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, servers)
    follower = asyncio.create_task(_follow_files(listeners))
    try:
        async with asyncio.TaskGroup() as group:
            for server, listening in zip(servers, sockets, strict=True):
                group.create_task(server.serve(sockets=[listening]))
    finally:
        follower.cancel()


def _stop(servers: Sequence[uvicorn.Server]) -> None:
    for server in servers:
        server.should_exit = True


def _server(item: Listening) -> uvicorn.Server:
    config = uvicorn.Config(
        item.app,
        http=protocol(item.connection_deadline),
        ws="none",
        lifespan="off",
        access_log=False,  # query strings hold Talos codes: they never reach a log
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        limit_concurrency=item.connections,
        h11_max_incomplete_event_size=_HEADERS,
        timeout_graceful_shutdown=10,
    )
    config.load()
    if item.tls is not None:
        config.ssl = item.tls.context
    return _Server(config)


async def _follow_files(listeners: Sequence[Listening]) -> None:
    """Put renewed TLS files in force without a restart."""
    followed = [item.tls for item in listeners if item.tls is not None]
    while True:
        await asyncio.sleep(_LOOK_AT_FILES)
        for tls in followed:
            if await asyncio.to_thread(tls.look):
                _log.info("new TLS files are in force")
