"""The inside listener: NetBox's webhook, metrics, readiness. Loopback unless the owner says otherwise."""

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from fleetd.app.refusals import CallRefusedError, malformed
from fleetd.http.limits import Deadline, read_body
from fleetd.http.problems import install_problems

_WEBHOOK_BODY = 1 << 20
_SIGNATURE = "x-hook-signature"


@dataclass(frozen=True, slots=True)
class InsideParts:
    """What the inside listener calls."""

    hint: Callable[[int | None], None]
    """NetBox says that a machine changed (None: something did). Only a hint: it is read again from NetBox."""
    metrics: Callable[[], tuple[bytes, str]]
    """The exposition and its content type."""
    ready: Callable[[], Sequence[str]]
    """What is wrong, in words; empty when the service is ready."""
    webhook_secret: bytes | None
    deadline: float = 30.0


def inside_app(parts: InsideParts) -> FastAPI:
    """Return the application of the inside listener."""
    app = FastAPI(title="fleetd inside", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app)
    app.add_middleware(Deadline, seconds=parts.deadline)

    @app.post("/hooks/netbox", status_code=204)
    async def netbox_changed(request: Request) -> Response:
        """Take NetBox's word that something changed; the signature is HMAC-SHA512 over the body."""
        raw = await read_body(request, _WEBHOOK_BODY)
        _check_signature(parts.webhook_secret, raw, request.headers.get(_SIGNATURE, ""))
        await run_in_threadpool(parts.hint, machine_of(raw))
        return Response(status_code=204)

    @app.get("/metrics")
    def metrics() -> Response:
        """Expose metrics, computed from rows."""
        body, content_type = parts.metrics()
        return Response(body, media_type=content_type)

    @app.get("/readyz")
    def ready() -> Response:
        """Tell whether the service can do its work."""
        problems = list(parts.ready())
        return JSONResponse({"ready": not problems, "problems": problems}, 503 if problems else 200)

    @app.get("/healthz")
    async def healthy() -> Response:
        """Tell that the process answers."""
        return JSONResponse({"alive": True})

    return app


def _check_signature(secret: bytes | None, raw: bytes, given: str) -> None:
    if secret is None:
        raise CallRefusedError(403, "no-webhook-secret", "netbox.webhook_secret_file is not configured")
    expected = hmac.new(secret, raw, hashlib.sha512).hexdigest()
    if not hmac.compare_digest(expected.encode(), given.strip().lower().encode()):
        raise CallRefusedError(403, "bad-signature", "the signature of the webhook does not match")


def machine_of(raw: bytes) -> int | None:
    """Return the machine id that the payload names, None where it is about something else.

    Raises CallRefusedError when the body is not a JSON object.
    """
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise malformed("the webhook's body is not JSON") from error
    if not isinstance(payload, dict):
        raise malformed("the webhook's body is not a JSON object")
    data = payload.get("data")
    if not isinstance(data, dict):
        return None
    if payload.get("model") == "machine":
        return _number(data.get("id"))
    return _number(data.get("machine_id")) or _number(_inner(data.get("machine"), "id"))


def _inner(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else value


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else None
