"""A Kubernetes API between fleetd and the real one that conflicts, forgets, throttles, breaks, hangs and loses answers."""

import json
import random
import ssl
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
_HANG = 4.0


class FaultyApi:
    """Listens on loopback in the clear; three of ten reads meet a fault, and three of ten writes.

    Which ones and what fault are drawn from a seeded generator, as cards are from a shuffled pack: however the calls of
    fleetd's processes fall together, every kind of fault comes within 20 calls. `kinds` counts the faults that were met:
    status codes, "hang" and "lost answer".
    """

    def __init__(self, kubeconfig: Path, folder: Path, *, seed: int = 1) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._target = urlsplit(cluster["server"])
        self._tls = ssl.create_default_context(cadata=_authority(cluster))
        self._tls.check_hostname = False
        self._lock = threading.Lock()
        self._reads = _faults(random.Random(seed), "410")
        self._writes = _faults(random.Random(seed), "409")
        self.kinds: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        threading.Thread(target=self._server.serve_forever, name="faulty API", daemon=True).start()
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        self.kubeconfig = folder / "faulty.kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def draw(self, method: str) -> str:
        """Return the fault that this request meets, "" for none."""
        with self._lock:
            kind = next(self._reads if method == "GET" else self._writes)
            self.kinds.update([kind] if kind else [])
            return kind

    def connect(self) -> HTTPConnection:
        """Open a connection to the real API."""
        assert self._target.hostname is not None
        return HTTPSConnection(self._target.hostname, self._target.port, context=self._tls, timeout=600)


def _faults(draw: random.Random, refusal: str) -> Iterator[str]:
    """Yield for ever: of 20 calls in a row five meet a fault of their own each, and one meets any of them."""
    kinds = ["429", "500", "hang", "lost answer", refusal]
    while True:
        pack = [*kinds, draw.choice(kinds), *[""] * 14]
        draw.shuffle(pack)
        yield from pack


def _authority(cluster: dict[str, Any]) -> str:
    if "certificate-authority-data" in cluster:
        return b64decode(cluster["certificate-authority-data"]).decode()
    return Path(cluster["certificate-authority"]).read_text()


class _Handler(BaseHTTPRequestHandler):
    api: FaultyApi
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.api.draw(self.command)
        self.close_connection = True
        if fault == "hang":
            time.sleep(_HANG)
        elif fault.isdigit():
            self._refuse(int(fault))
        else:
            self._forward(body, answer=not fault)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - names of the library

    def _refuse(self, code: int) -> None:
        reason = _REASONS[code]
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
        data = json.dumps({**status, "metadata": {}, "message": f"the faulty API says {reason}"}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if code == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(data)

    def _forward(self, body: bytes, *, answer: bool) -> None:
        upstream = self.api.connect()
        try:
            headers = {name: value for name, value in self.headers.items() if name not in {"Host", "Connection"}}
            upstream.request(self.command, self.path, body, headers)
            told = upstream.getresponse()
            if not answer:
                if "watch=" not in self.path:
                    told.read()
                return
            self.send_response(told.status)
            self.send_header("Content-Type", told.headers.get("Content-Type", "application/json"))
            self.send_header("Connection", "close")
            self.end_headers()
            while data := told.read1(1 << 16):
                self.wfile.write(data)
                self.wfile.flush()
        finally:
            upstream.close()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
