"""Every refusal is a problem document (RFC 9457); nothing that a caller sends ends in a 500."""

import json
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy.exc import DataError, InterfaceError, OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fleetd.app.refusals import CallRefusedError, malformed
from fleetd.ports import OutageError, RefusedError

_log = structlog.get_logger(__name__)
_TITLES = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "not-json"}

PROBLEM = "application/problem+json"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "Refused, with why",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
    503: {
        "description": "Try again later",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
}
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "stop": {"type": "boolean"},
        "findings": {"type": "array", "items": {"type": "object"}},
    },
}


def problem_bytes(refusal: CallRefusedError) -> bytes:
    """Return the document as it is sent."""
    return json.dumps(refusal.as_problem(), separators=(",", ":")).encode()


def problem_response(refusal: CallRefusedError) -> Response:
    """Return the answer that refuses a call."""
    headers = {"Cache-Control": "no-store"}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    return Response(problem_bytes(refusal), refusal.status, headers, PROBLEM)


def where_wrong(error: ValidationError) -> str:
    """Name the fields that are wrong, without their values."""
    items = [f"{'.'.join(map(str, item['loc'])) or 'body'}: {item['msg']}" for item in error.errors()[:8]]
    return "; ".join(items)[:800]


def install_problems(app: FastAPI) -> None:
    """Answer every exception with a problem document."""

    @app.exception_handler(CallRefusedError)
    async def _refused(_request: Request, error: CallRefusedError) -> Response:
        return problem_response(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> Response:
        where = [".".join(map(str, item["loc"])) for item in error.errors()[:8]]
        return problem_response(malformed(f"not valid: {', '.join(where)}"))

    @app.exception_handler(ValidationError)
    async def _invalid_body(_request: Request, error: ValidationError) -> Response:
        return problem_response(malformed(where_wrong(error)))

    @app.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> Response:
        code = _TITLES.get(error.status_code, "refused")
        response = problem_response(CallRefusedError(error.status_code, code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(DataError)
    async def _unstorable(request: Request, error: DataError) -> Response:
        _log.error("a value reached the store that it cannot hold", path=request.url.path, exc_info=error)
        return problem_response(malformed("a value cannot be stored"))

    @app.exception_handler(OutageError)
    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    async def _outage(_request: Request, error: Exception) -> Response:
        _log.warning("part outside is out", error=type(error).__name__)
        refusal = CallRefusedError(503, "outage", "a part of the service cannot be reached", retry_after=15)
        return problem_response(refusal)

    @app.exception_handler(RefusedError)
    async def _outside_refused(_request: Request, error: RefusedError) -> Response:
        _log.error("part outside refused", error=str(error))
        return problem_response(
            CallRefusedError(503, "refused-outside", "a part of the service refused", retry_after=60)
        )

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> Response:
        _log.error("unhandled", path=request.url.path, error=type(error).__name__, exc_info=error)
        return problem_response(CallRefusedError(500, "internal", "the service failed; its log says more"))
