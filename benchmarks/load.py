"""Calls of many machines at once: bodies that were made before the clock started, sent over TLS by a few threads."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One POST."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back, as far as the test builders ask for it."""

    status_code: int
    content: bytes

    def json(self) -> Any:
        """Return the body, parsed."""
        return json.loads(self.content)

    @property
    def text(self) -> str:
        """The body, for an error message."""
        return self.content.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Target:
    """The machine listener on loopback."""

    port: int
    tls: ssl.SSLContext

    def post(self, path: str, *, json: Any) -> Answered:
        """Make one call on a connection of its own."""
        answers, _ = self.send([Call(path, dumped(json))], threads=1, a_connection=1)
        return answers[0]

    def send(self, calls: Sequence[Call], *, threads: int, a_connection: int) -> tuple[list[Answered], float]:
        """Make all calls, `a_connection` of them on each connection; return the answers in order, and the seconds.

        Raises AssertionError when a call was not answered with success.
        """
        answers: list[Answered | None] = [None] * len(calls)
        batches = iter([range(at, min(at + a_connection, len(calls))) for at in range(0, len(calls), a_connection)])
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    batch = next(batches, None)
                if batch is None:
                    return
                connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.tls)
                for index in batch:
                    answers[index] = _made(connection, calls[index])
                connection.close()

        begun = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - begun
        done = [answer for answer in answers if answer is not None]
        wrong = [answer for answer in done if answer.status_code not in {200, 201}]
        assert len(done) == len(calls), f"{len(calls) - len(done)} of {len(calls)} calls were not answered"
        assert not wrong, (
            f"{len(wrong)} of {len(calls)} calls were refused: {wrong[0].status_code} {wrong[0].text[:300]}"
        )
        return done, seconds


def dumped(body: Any) -> bytes:
    """Return the body's bytes."""
    return json.dumps(body).encode()


def _made(connection: http.client.HTTPSConnection, call: Call) -> Answered:
    connection.request("POST", call.path, call.body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return Answered(answer.status, answer.read())
