"""HTTPS to fleetd: pinned CA, one request a connection, patience with a silent fleetd."""

import http.client
import json
import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from fleet_machine import VERSION
from fleet_machine.clock import Clock, FleetTime
from fleet_machine.console import Console
from fleet_machine.failure import FindingTold, NotAuthenticError, OutsideError, RefusedError
from fleet_machine.jws import Typ
from fleet_machine.settings import Service

TIMEOUT = 30.0
BODY_LIMIT = 8 * 1024 * 1024
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
RETRIED = frozenset({408, 425, 429})
"""Refusals that may pass, beside all from 500 on."""
LONGEST_ASKED = 3600.0
"""Seconds after which fleetd is asked again, whatever `Retry-After` says: a date is read by a clock that may be wrong."""

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME and verification errors (x509_vfy.h); Python names none of them.
NO_CHECK_TIME = 0x200000
NOT_YET_VALID, EXPIRED = 9, 10


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful HTTP answer."""

    status: int
    body: Any
    """Parsed JSON; None for an empty body."""
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]
    timeout: float


@dataclass(slots=True)
class FleetClient:
    """Calls to fleetd. Raises OutsideError, RefusedError, NotAuthenticError."""

    service: Service
    clock: Clock
    console: Console
    time: FleetTime
    _unproven: tuple[datetime, datetime] | None = field(default=None, init=False)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Callable[[], Mapping[str, str]] = dict,
        *,
        patience: float | None = None,
        timeout: float = TIMEOUT,
    ) -> Answer:
        """Make one call and repeat it while fleetd is silent or overloaded; `headers` is asked at each attempt.

        `patience` in seconds overrides the service's; 0 tries once. A refusal is raised at once.
        """
        give_up = self.clock.boot() + (self.service.patience if patience is None else patience)
        pause = FIRST_PAUSE
        told = False
        while True:
            try:
                return self._once(_Request(method, path, body, headers(), timeout))
            except OutsideError as error:
                asked = error.__cause__.retry_after if isinstance(error.__cause__, RefusedError) else None
                wait = max(asked or 0.0, pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                if self.clock.boot() + wait > give_up:
                    raise
                if not told:
                    self.console.say(f"{error} Trying again.")
                    told = True
                self.clock.sleep(wait)
                pause = min(pause * 1.6, LONGEST_PAUSE)

    def believe_time(self, issued: datetime) -> None:
        """Take fleetd's time from a verified challenge, and judge by it a certificate whose dates were in doubt.

        Raises NotAuthenticError when the certificate is out of date by fleetd's own clock too.
        """
        self.time.learn(issued)
        if self._unproven is None:
            return
        begin, end = self._unproven
        if not begin - timedelta(minutes=5) <= issued <= end:
            raise NotAuthenticError("The certificate of fleetd is out of date, by fleetd's own time.")
        self.console.say(
            f"The clock of this machine is wrong: it says {self.clock.wall():%Y-%m-%d %H:%M}, fleetd says "
            f"{issued:%Y-%m-%d %H:%M}. Going on with fleetd's time."
        )
        self._unproven = None

    def _once(self, request: "_Request") -> Answer:
        try:
            try:
                return self._send(request, self._context(check_time=True))
            except ssl.SSLCertVerificationError as error:
                if error.verify_code not in (NOT_YET_VALID, EXPIRED):
                    raise
                return self._send(request, self._context(check_time=False))
        except ssl.SSLCertVerificationError as error:
            raise NotAuthenticError(
                f"The server at {self.service.url} shows a certificate that FLEET_CA did not issue for it: "
                f"{error.verify_message}"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise OutsideError(
                f"fleetd at {self.service.url} does not answer ({error or type(error).__name__})."
            ) from error

    def _context(self, *, check_time: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=self.service.ca)
        if not check_time:
            context.verify_flags |= NO_CHECK_TIME
        return context

    def _send(self, request: "_Request", context: ssl.SSLContext) -> Answer:
        target = urlsplit(self.service.url)
        source = (self.service.source_address, 0) if self.service.source_address else None
        connection = http.client.HTTPSConnection(
            target.hostname or "", target.port or 443, timeout=request.timeout, source_address=source, context=context
        )
        headers = {"Accept": "application/json", "User-Agent": f"fleet-machine/{VERSION}", "Connection": "close"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.connect()
            if context.verify_flags & NO_CHECK_TIME:
                self._doubt_dates(connection.sock)
            connection.request(request.method, target.path + request.path, request.body, {**headers, **request.headers})
            response = connection.getresponse()
            body = response.read(BODY_LIMIT)
            if response.length and len(body) < BODY_LIMIT:
                # `read` with a size ends silently where the connection does: half an answer is none.
                raise OSError(f"the answer broke off, {response.length} bytes before its end")
            return self._read(response.status, response.headers, body)
        finally:
            connection.close()

    def _doubt_dates(self, sock: Any) -> None:
        """Judge a certificate whose dates do not fit the wall clock by fleetd's time, now or once it is known."""
        certificate = sock.getpeercert()
        dates = tuple(
            datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate[name]), timezone.utc)
            for name in ("notBefore", "notAfter")
        )
        if self.time.mark is None:
            self._unproven = (dates[0], dates[1])
        elif not dates[0] - timedelta(minutes=5) <= self.time.now() <= dates[1]:
            raise NotAuthenticError("The certificate of fleetd is out of date, by fleetd's own time.")

    def _read(self, status: int, headers: Message, raw: bytes) -> Answer:
        retry_after = _retry_after(headers.get("Retry-After"), self.time.now())
        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError) as error:
            if 200 <= status < 300:
                raise OutsideError(f"{self.service.url} answers with something that is not JSON.") from error
            body = None
        if 200 <= status < 300:
            return Answer(status, body, retry_after)
        refusal = refusal_of(status, body, retry_after)
        # Every refusal of fleetd is a problem document that names its status (RFC 9457, section 3.1.2): another one is of
        # something in front of it, and says nothing of a machine.
        if status in RETRIED or status >= 500 or not isinstance(body, dict) or body.get("status") != status:
            raise OutsideError(f"fleetd at {self.service.url} cannot answer now ({status} {refusal}).") from refusal
        raise refusal

    def signed(self, answer: Answer, typ: Typ) -> dict[str, Any]:
        """Return what fleetd signed in an answer. Raises NotAuthenticError."""
        if not isinstance(answer.body, dict) or not isinstance(answer.body.get("jws"), str):
            raise NotAuthenticError(f"{self.service.url} answers without fleetd's signature.")
        return self.service.keys.verify(answer.body["jws"], typ)


def refusal_of(status: int, body: Any, retry_after: float | None) -> RefusedError:
    """Return a problem document (RFC 9457) as an error."""
    problem = body if isinstance(body, dict) else {}
    told = problem.get("findings")
    findings = tuple(
        FindingTold(*(str(item.get(name, "")) for name in ("code", "severity", "message", "next_step")))
        for item in (told if isinstance(told, list) else ())
        if isinstance(item, dict)
    )
    detail = str(problem.get("detail") or problem.get("title") or f"refused with status {status}")
    kind = str(problem.get("type", "")).rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return RefusedError(
        status, detail, kind=kind, stop=bool(problem.get("stop")), retry_after=retry_after, findings=findings
    )


def _retry_after(text: str | None, now: datetime) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - now).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(0.0, seconds), LONGEST_ASKED)
