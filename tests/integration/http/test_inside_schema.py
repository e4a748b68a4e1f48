"""schemathesis over the inside listener: whatever is called, signed or not, is answered as is said here, and never a 500."""

import hashlib
import hmac

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fleetd.http.inside import InsideParts, inside_app
from fleetd.http.problems import PROBLEM_SCHEMA, PROBLEMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CALLS = 60
# No 500 is among the answers that the document knows; a 503 is what /readyz is for.
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
SECRET = b"what NetBox signs with"
REFUSED = {"4XX": PROBLEMS["4XX"]}


def answer(schema):
    return {"description": "As asked", "content": {"application/json": {"schema": schema}}}


READINESS = answer(
    {
        "type": "object",
        "required": ["ready", "problems"],
        "properties": {"ready": {"type": "boolean"}, "problems": {"type": "array", "items": {"type": "string"}}},
    }
)
ANYTHING = {"type": ["object", "array", "string", "integer", "boolean", "null"]}
WEBHOOK = {
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "model": {"type": "string", "enum": ["machine", "endorsementkey", "baseline"]},
        "data": {
            "type": "object",
            "properties": {"id": ANYTHING, "machine": ANYTHING, "machine_id": ANYTHING},
        },
    },
}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "the inside listener, which publishes no document itself", "version": "1"},
    "components": {"schemas": {"Problem": PROBLEM_SCHEMA}},
    "paths": {
        "/hooks/netbox": {
            "post": {
                "requestBody": {"required": True, "content": {"application/json": {"schema": WEBHOOK}}},
                "responses": {"204": {"description": "Heard"}, **REFUSED},
            }
        },
        "/metrics": {
            "get": {
                "responses": {
                    "200": {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}},
                    **REFUSED,
                }
            }
        },
        "/readyz": {"get": {"responses": {"200": READINESS, "503": READINESS, **REFUSED}}},
        "/healthz": {"get": {"responses": {"200": answer({"type": "object", "required": ["alive"]}), **REFUSED}}},
    },
}


def signing(app):
    """Put NetBox's signature of the body on every request."""

    async def signed(scope, receive, send):
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        signature = hmac.new(SECRET, body, hashlib.sha512).hexdigest().encode()
        headers = [pair for pair in scope["headers"] if pair[0] != b"x-hook-signature"]
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return waiting.pop() if waiting else await receive()

        await app({**scope, "headers": [*headers, (b"x-hook-signature", signature)]}, again, send)

    return signed


def each_of(cases, ask):
    @given(case=cases)
    @settings(
        max_examples=CALLS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    def probe(case):
        ask(case)

    probe()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as said", "otherwise"])
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "not signed"])
def test_any_call_is_answered_as_it_is_said(signed, mode):
    hints, problems = [], []
    parts = InsideParts(
        hint=hints.append,
        metrics=lambda: (b"fleet_up 1\n", "text/plain; version=0.0.4; charset=utf-8"),
        ready=lambda: problems,
        webhook_secret=SECRET,
    )
    app = inside_app(parts)
    called = signing(app) if signed else app
    probed = set()

    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations():
        operation = found.ok()

        def ask(case, path=operation.path):
            for wrong in ([], ["the database is away"]):
                problems[:] = wrong
                told = case.call(app=called, base_url="http://inside")
                case.validate_response(told, checks=CHECKS)
                probed.add((path, told.status_code))

        if mode is GenerationMode.POSITIVE or operation.body:
            each_of(operation.as_strategy(generation_mode=mode), ask)

    heard = ("/hooks/netbox", 204) in probed
    assert heard == (signed and bool(hints))
    assert all(hint is None or 0 < hint < 2**53 for hint in hints)
    if mode is GenerationMode.POSITIVE:
        assert {path for path, _ in probed} == {route.path for route in app.routes}
        assert {("/readyz", 200), ("/readyz", 503)} <= probed
    if not signed:
        assert not hints
