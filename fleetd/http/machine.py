"""The machine listener's routes: they read, hand over to a use case, and write the answer down."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi import FastAPI, Request
from pydantic import BaseModel, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from fleetd.app import challenge, check, enroll, messages, redeem, seed, session, talos
from fleetd.app.exchange import Exchange
from fleetd.app.refusals import CallRefusedError
from fleetd.http.documents import documented, install_openapi
from fleetd.http.limits import LARGE_BODY, SMALL_BODY, Buckets, Deadline, Network, client_address, read_body
from fleetd.http.problems import PROBLEMS, install_problems
from fleetd.store.tokens import Answer

_CHALLENGE: TypeAdapter[messages.ChallengeAsk] = TypeAdapter(messages.ChallengeAsk)
_NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class MachineParts:
    """What the machine listener calls, and the bounds that it keeps."""

    exchange: Exchange
    publication: Callable[[str, str], bytes | None]
    """(`crl` or `ca`, name of the issuer) -> DER or PEM bytes; None where there is none of that name."""
    trusted_proxies: tuple[Network, ...] = ()
    calls_per_minute: int = 120
    calls_in_total_per_minute: int = 30_000
    deadline: float = 30.0


class Listener:
    """Reads requests of machines within the bounds."""

    def __init__(self, parts: MachineParts) -> None:
        self._parts = parts
        self._buckets = Buckets(parts.calls_per_minute, parts.calls_in_total_per_minute)
        self.exchange = parts.exchange

    def address(self, request: Request) -> str:
        """Return the caller's address, having counted the call. Raises CallRefusedError 429."""
        address = client_address(request, self._parts.trusted_proxies)
        wait = self._buckets.take(address)
        if wait is not None:
            raise CallRefusedError(429, "too-many-calls", "too many calls from this address", retry_after=wait)
        return address

    async def caller(self, request: Request, run: UUID) -> tuple[session.Caller, bytes]:
        """Return who calls under which session, and the body."""
        self.address(request)
        raw = await read_body(request, SMALL_BODY)
        call = session.Call(
            method=request.method,
            path=path_of(request),
            body=raw,
            enrollment=request.headers.get("fleet-enrollment", ""),
            counter=request.headers.get("fleet-counter", ""),
            mac=request.headers.get("fleet-mac", ""),
        )
        return await run_in_threadpool(session.admit, self.exchange, run, call), raw


def machine_app(parts: MachineParts) -> FastAPI:
    """Return the application of the machine listener."""
    app = FastAPI(title="fleetd machine API", version="1", docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    install_problems(app)
    install_openapi(app)
    app.add_middleware(Deadline, seconds=parts.deadline)
    listener = Listener(parts)
    _proof_routes(app, listener)
    _run_routes(app, listener)
    _public_routes(app, listener, parts)
    return app


def _proof_routes(app: FastAPI, listener: Listener) -> None:
    """Calls that carry their own proof."""

    @app.post("/v1/challenges", status_code=201, responses=PROBLEMS, openapi_extra=documented("ChallengeAsk"))
    async def make_challenge(request: Request) -> Response:
        """Make a challenge; nothing is written."""
        address = listener.address(request)
        ask = _CHALLENGE.validate_json(await read_body(request, SMALL_BODY))
        return _signed(await run_in_threadpool(challenge.ask, listener.exchange, ask, address), 201)

    @app.post("/v1/enrollments", responses=PROBLEMS, openapi_extra=documented("Enroll"))
    async def make_enrollment(request: Request) -> Response:
        """Prove a machine."""
        address = listener.address(request)
        raw = await read_body(request, LARGE_BODY)
        return _answer(await run_in_threadpool(_parsed, enroll.enroll, messages.Enroll, listener, raw, address))

    @app.post("/v1/seeds/redeem", responses=PROBLEMS, openapi_extra=documented("Redeem"))
    async def redeem_seed(request: Request) -> Response:
        """Exchange a ticket and a quote of the installed system for the seed."""
        address = listener.address(request)
        raw = await read_body(request, LARGE_BODY)
        return _answer(await run_in_threadpool(_parsed, redeem.redeem, messages.Redeem, listener, raw, address))

    @app.post("/v1/checks", responses=PROBLEMS, openapi_extra=documented("Check"))
    async def boot_check(request: Request) -> Response:
        """Record a boot check."""
        address = listener.address(request)
        raw = await read_body(request, LARGE_BODY)
        return _answer(await run_in_threadpool(_parsed, check.check, messages.Check, listener, raw, address))


def _run_routes(app: FastAPI, listener: Listener) -> None:
    """Calls of a run, under the session of an enrollment."""

    @app.post("/v1/runs/{run}/leave", responses=PROBLEMS, openapi_extra=documented("Leave"))
    async def ask_leave(run: UUID, request: Request) -> Response:
        """Ask whether an action may erase or write the disk now."""
        caller, raw = await listener.caller(request, run)
        ask = messages.Leave.model_validate_json(raw)
        return _signed(await run_in_threadpool(session.ask_leave, listener.exchange, caller, ask))

    @app.post("/v1/runs/{run}/events", status_code=204, responses=PROBLEMS, openapi_extra=documented("Event"))
    async def tell_event(run: UUID, request: Request) -> Response:
        """Tell what an action does."""
        caller, raw = await listener.caller(request, run)
        event = messages.Event.model_validate_json(raw)
        await run_in_threadpool(session.tell_event, listener.exchange, caller, event)
        return Response(status_code=204)

    @app.post("/v1/runs/{run}/seed", responses=PROBLEMS, openapi_extra=documented("Empty"))
    async def fetch_seed(run: UUID, request: Request) -> Response:
        """Fetch the NoCloud seed while the disk is written."""
        caller, raw = await listener.caller(request, run)
        messages.Empty.model_validate_json(raw)
        return _signed(await run_in_threadpool(seed.fetch_seed, listener.exchange, caller, path_of(request)))

    @app.post("/v1/runs/{run}/ticket", responses=PROBLEMS, openapi_extra=documented("Empty"))
    async def fetch_ticket(run: UUID, request: Request) -> Response:
        """Fetch the ticket that the installed system will redeem."""
        caller, raw = await listener.caller(request, run)
        messages.Empty.model_validate_json(raw)
        return _signed(await run_in_threadpool(seed.fetch_ticket, listener.exchange, caller, path_of(request)))

    @app.get("/v1/runs/{run}/reboot", responses=PROBLEMS)
    async def ask_reboot(run: UUID, request: Request) -> Response:
        """Ask whether the machine may reboot from its disk now."""
        caller, _raw = await listener.caller(request, run)
        allowed = await run_in_threadpool(session.ask_reboot, listener.exchange, caller)
        return JSONResponse({"reboot": allowed}, headers=_NO_STORE)


def _public_routes(app: FastAPI, listener: Listener, parts: MachineParts) -> None:
    """What anybody may read, and Talos's own way to its configuration."""

    @app.get("/v1/config", responses=PROBLEMS)
    async def talos_config(
        request: Request, code: str = "", uuid: str = "", serial: str = "", mac: str = ""
    ) -> Response:
        """Give a Talos node its machine configuration, once."""
        address = listener.address(request)
        ask = talos.ConfigAsk(code=code, uuid=uuid, serial=serial, mac=mac, address=address)
        body = await run_in_threadpool(talos.fetch_config, listener.exchange, ask)
        if "gzip" in request.headers.get("accept-encoding", "").lower():
            # No time in it: the same configuration is the same bytes.
            packed = gzip.compress(body, mtime=0)
            headers = {**_NO_STORE, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(packed, media_type="application/yaml", headers=headers)
        return Response(body, media_type="application/yaml", headers={**_NO_STORE, "Vary": "Accept-Encoding"})

    @app.get("/v1/crl/{ca}", responses=PROBLEMS)
    def revocations(ca: str, request: Request) -> Response:
        """Return the CRL of an issuing CA."""
        return _published(listener, request, parts, "crl", ca, "application/pkix-crl")

    @app.get("/v1/ca/{ca}", responses=PROBLEMS)
    def certificate(ca: str, request: Request) -> Response:
        """Return the certificate of a CA."""
        return _published(listener, request, parts, "ca", ca, "application/pem-certificate-chain")

    @app.get("/healthz")
    async def healthy() -> Response:
        """Tell that the process answers."""
        return JSONResponse({"alive": True})


def path_of(request: Request) -> str:
    """Return the path as it was sent: what the MAC is over."""
    raw = request.scope.get("raw_path")
    return raw.decode("latin-1").split("?", 1)[0] if isinstance(raw, bytes) else request.url.path


def _published(
    listener: Listener, request: Request, parts: MachineParts, kind: str, name: str, media_type: str
) -> Response:
    listener.address(request)
    found = parts.publication(kind, name[:100])
    if found is None:
        raise CallRefusedError(404, "not-found", f"there is no {kind} of that name")
    return Response(found, media_type=media_type)


def _parsed[Body: BaseModel](
    use: Callable[[Exchange, Body, bytes, str], Answer], kind: type[Body], listener: Listener, raw: bytes, address: str
) -> Answer:
    """Parse in the worker thread: a body of a megabyte must not hold up the others."""
    return use(listener.exchange, kind.model_validate_json(raw), raw, address)


def _signed(jws: str, status: int = 200) -> Response:
    return JSONResponse({"jws": jws}, status, _NO_STORE)


def _answer(answer: Answer) -> Response:
    headers: dict[str, Any] = dict(_NO_STORE)
    if answer.retry_after is not None:
        headers["Retry-After"] = str(answer.retry_after)
    return Response(answer.body, answer.status, headers, answer.content_type)
