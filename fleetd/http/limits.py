"""Bounds on what one address, one body and one connection may cost."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetd.app.refusals import CallRefusedError
from fleetd.core.sources import source_of
from fleetd.http.problems import problem_response

SMALL_BODY = 64 * 1024
LARGE_BODY = 1024 * 1024
_ADDRESSES_KEPT = 50_000

Network = IPv4Network | IPv6Network


class Buckets:
    """A token bucket a source (fleetd.core.sources), and one for all; bounded memory, oldest forgotten first."""

    def __init__(self, per_address: int, in_total: int) -> None:
        """Both in calls a minute."""
        self._per_address = per_address
        self._in_total = in_total
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._all = (float(in_total), time.monotonic())

    def take(self, address: str) -> int | None:
        """Take one call; None when it may go on, else the seconds to wait."""
        now = time.monotonic()
        source = source_of(address)
        level, then = self._levels.pop(source, (float(self._per_address), now))
        level, wait = _drain(level, now - then, self._per_address)
        self._levels[source] = (level, now)
        while len(self._levels) > _ADDRESSES_KEPT:
            self._levels.popitem(last=False)
        if wait is not None:
            return wait
        total, wait = _drain(self._all[0], now - self._all[1], self._in_total)
        self._all = (total, now)
        return wait


def _drain(level: float, seconds: float, per_minute: int) -> tuple[float, int | None]:
    level = min(float(per_minute), level + seconds * per_minute / 60)
    if level < 1:
        return level, max(1, round((1 - level) * 60 / per_minute))
    return level - 1, None


def client_address(request: Request, trusted: Sequence[Network]) -> str:
    """Return the address of the caller; a forwarded one counts only behind a trusted proxy.

    Behind several proxies the last address that is not a trusted proxy is the caller.
    """
    peer = _address(request.client.host if request.client else "")
    if peer is None or not _within(peer, trusted):
        return str(peer or "unknown")
    forwarded = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    for text in reversed([item.strip() for item in forwarded if item.strip()][-20:]):
        found = _address(text)
        if found is None:
            break
        peer = found
        if not _within(found, trusted):
            break
    return str(peer)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text.split("%", 1)[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _within(address: IPv4Address | IPv6Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, reading no more than `limit` bytes. Raises CallRefusedError 413."""
    too_large = CallRefusedError(413, "too-large", f"the body exceeds {limit} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


class Deadline:
    """One deadline for reading and answering a request; what comes later is cut off."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request within the deadline."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: "dict[str, object]") -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            async with asyncio.timeout(self._seconds):
                await self._app(scope, receive, watched)  # type: ignore[arg-type]
        except TimeoutError:
            if not begun:
                refusal = CallRefusedError(408, "too-slow", "the request took too long", retry_after=15)
                await problem_response(refusal)(scope, receive, send)
