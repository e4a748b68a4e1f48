"""Downloading an image as a stream that goes on where a connection broke off."""

import http.client
import queue
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urljoin, urlsplit

from fleet_machine import VERSION
from fleet_machine.clock import Clock
from fleet_machine.failure import FleetError, OutsideError

CHUNK = 1 << 20
TIMEOUT = 60.0
PAUSE, LONGEST_PAUSE = 1.0, 15.0
REDIRECTS = 5
AHEAD = 8
"""Chunks that may be read ahead while the disk writes."""


class ImageError(FleetError):
    """The image is not what the class declares; the disk is left without a partition table."""


@dataclass(slots=True)
class Download:
    """One file on an HTTP(S) server, read once from its beginning to its end."""

    url: str
    clock: Clock
    say: Callable[[str], None]
    ca: str = ""
    """PEM of a further CA to trust, beside the system's."""
    patience: float = 900.0
    """Seconds without a new byte after which the download is given up."""
    received: int = field(default=0, init=False)
    length: int | None = field(default=None, init=False)
    _etag: str = field(default="", init=False)

    def chunks(self) -> "Any":
        """Yield the file in chunks. Raises OutsideError, ImageError when the server's file changed meanwhile."""
        last, pause = self.clock.boot(), PAUSE
        while self.length is None or self.received < self.length:
            before = self.received
            try:
                yield from self._one_connection()
                if self.length is None:
                    return
                problem = f"the connection ended after {self.received} of {self.length} bytes"
            except (OSError, ValueError, http.client.HTTPException, OutsideError) as error:
                # A ValueError: an address or a length in the answer that nothing can be made of.
                problem = str(error) or type(error).__name__
            if self.length is not None and self.received == self.length:
                return
            if self.received > before:
                last, pause = self.clock.boot(), PAUSE
            if self.clock.boot() + pause - last > self.patience:
                raise OutsideError(f"The image cannot be fetched from {shown(self.url)}: {problem}.")
            self.say(f"The download of the image broke off ({problem}); going on at byte {self.received}.")
            self.clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _one_connection(self) -> "Any":
        connection, response = self._asked()
        try:
            skip = self._checked_start(response)
            while chunk := response.read(CHUNK):
                useful = chunk[skip:]
                skip = max(0, skip - len(chunk))
                if useful:
                    self.received += len(useful)
                    yield useful
        finally:
            connection.close()

    def _checked_start(self, response: http.client.HTTPResponse) -> int:
        """Return how many bytes of this answer were received before; learn length and version of the file."""
        etag = response.headers.get("ETag", "") or response.headers.get("Last-Modified", "")
        whole = _whole_length(response)
        if self.received == 0:
            self.length, self._etag = whole, etag
            return 0
        if (self._etag and etag and etag != self._etag) or (
            self.length is not None and whole not in (None, self.length)
        ):
            raise ImageError("The image changed on its server while it was being fetched.")
        if response.status == 206:
            content_range = response.headers.get("Content-Range", "")
            if not content_range.startswith(f"bytes {self.received}-"):
                raise OutsideError("the server answers with another part of the image than was asked for")
            return 0
        return self.received

    def _asked(self) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        url = self.url
        for _ in range(REDIRECTS):
            connection, response = self._get(url)
            if response.status in (200, 206):
                return connection, response
            connection.close()
            location = response.headers.get("Location", "")
            if response.status in (301, 302, 303, 307, 308) and location:
                url = urljoin(url, location)
                continue
            # What was there a moment ago is behind something that restarts.
            if response.status in (400, 401, 403, 404, 410) and not self.received:
                raise ImageError(f"The image server answers {response.status} for {shown(url)}.")
            raise OutsideError(f"the server answers {response.status}")
        raise ImageError(f"The image server redirects {shown(self.url)} without end.")

    def _get(self, url: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = open_connection(url, self.ca)
        target = urlsplit(url)
        headers = {"User-Agent": f"fleet-machine/{VERSION}", "Accept-Encoding": "identity", "Connection": "close"}
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
            if self._etag.startswith('"'):
                headers["If-Range"] = self._etag
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        try:
            connection.request("GET", path, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise


class ReadAhead:
    """Reads a download in a thread, so that network and disk work at the same time; hashes what passes."""

    def __init__(self, download: Download) -> None:
        """Begin to read."""
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
        self._digest = sha256()
        self._stop = threading.Event()
        self._rest = b""
        self._ended = False
        self._thread = threading.Thread(target=self._work, args=(download,), daemon=True)
        self._thread.start()

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; b"" at the end. Raises what the download raised."""
        if not self._rest and not self._ended:
            item = self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                self._ended = True
            else:
                self._rest = item
        if size < 0:
            size = len(self._rest)
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    def peek(self) -> bytes:
        """Return the first chunk without taking it."""
        self._rest = self.read() if not self._rest else self._rest
        return self._rest

    def hexdigest(self) -> str:
        """Return the SHA-256 of all that was downloaded; to be asked at the end."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()

    def _work(self, download: Download) -> None:
        last: bytes | BaseException | None = None
        try:
            for chunk in download.chunks():
                self._digest.update(chunk)
                if not self._put(chunk):
                    return
        except Exception as error:  # noqa: BLE001 - whoever reads would wait for ever for a thread that ended without a word
            last = error
        self._put(last)

    def _put(self, item: bytes | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False


def open_connection(url: str, ca: str) -> http.client.HTTPConnection:
    """Return a connection for an http or https address. Raises ImageError for another kind."""
    target = urlsplit(url)
    if target.scheme == "http" and target.hostname:
        return http.client.HTTPConnection(target.hostname, target.port or 80, timeout=TIMEOUT)
    if target.scheme == "https" and target.hostname:
        context = ssl.create_default_context()
        if ca:
            context.load_verify_locations(cadata=ca)
        return http.client.HTTPSConnection(target.hostname, target.port or 443, timeout=TIMEOUT, context=context)
    raise ImageError(f"The image's address is neither http nor https: {shown(url)}.")


def shown(url: str) -> str:
    """Return an address as it may be shown: without user, password and query."""
    target = urlsplit(url)
    return f"{target.scheme}://{target.hostname}{target.path}"


def _whole_length(response: http.client.HTTPResponse) -> int | None:
    """Return the length of the whole file, of which the answer may be a part."""
    if response.status == 206:
        whole = response.headers.get("Content-Range", "").rpartition("/")[2]
        return int(whole) if whole.isdigit() else None
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None
