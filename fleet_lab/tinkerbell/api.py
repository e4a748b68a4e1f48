"""The Kubernetes API over HTTP: paths, methods, headers; an ASGI application without a framework."""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from fleet_lab.tinkerbell import discovery, lists, objects, status
from fleet_lab.tinkerbell.faults import Fault, Faults, strike
from fleet_lab.tinkerbell.kinds import Kind, kind_at
from fleet_lab.tinkerbell.store import Json, Store
from fleet_lab.tinkerbell.watches import stream

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_PARTIAL = "as=PartialObjectMetadata"
FAULTS_PATH = "/lab/faults"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, taken apart."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """What a path points at."""

    kind: Kind
    namespace: str | None
    name: str | None
    subresource: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer."""

    code: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()


class KubernetesApi:
    """Serve a store to clients that hold the token."""

    def __init__(self, store: Store, token: str, namespaces: tuple[str, ...]) -> None:
        self._store = store
        self._token = token
        self._namespaces = namespaces
        self.faults = Faults()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        request = await _read(scope, receive)
        try:
            await self._serve(request, send)
        except status.ApiError as error:
            await _send(send, _refusal(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A body of the wrong shape somewhere that no schema looks at, such as labels that are a list.
            await _send(send, _refusal(status.bad_request(f"the request cannot be handled: {error!r}")))

    async def _serve(self, request: Request, send: Send) -> None:
        if not hmac.compare_digest(request.headers.get("authorization", ""), f"Bearer {self._token}"):
            raise status.ApiError(401, "Unauthorized", "Unauthorized")
        if request.path == FAULTS_PATH:
            self.faults.pending.extend(Fault(**fault) for fault in json.loads(request.body or b"[]"))
            await _send(send, Answer(200, {"pending": len(self.faults.pending)}))
            return
        fault = self.faults.take(request.method, request.path)
        if fault is not None and not fault.after:
            await strike(fault)
            if fault.page:
                await _send(send, Answer(fault.code, fault.page))
                return
        found = discovery.document(request.path)
        place = self._place(request.path)
        if found is not None:
            await _send(send, Answer(200, found))
        elif place is None:
            await _send(send, Answer(404, "404 page not found\n"))
        elif request.method == "GET" and request.query.get("watch") in {"true", "1"}:
            await self._watch(place, request, send)
        else:
            answer = self._act(place, request)
            if fault is not None and fault.after:
                await strike(fault)
            await _send(send, answer)

    def _place(self, path: str) -> Place | None:
        steps = path.strip("/").split("/")
        if steps[0] == "apis" and len(steps) > 3:
            group, version, rest = steps[1], steps[2], steps[3:]
        elif steps[0] == "api" and len(steps) > 2:
            group, version, rest = "", steps[1], steps[2:]
        else:
            return None
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kind = kind_at(group, version, rest[0])
        subresource = rest[2] if len(rest) > 2 else None
        if kind is None or len(rest) > 3 or subresource not in {None, "status"}:
            return None
        return Place(kind, namespace, rest[1] if len(rest) > 1 else None, subresource)

    def _act(self, place: Place, request: Request) -> Answer:
        match request.method, place:
            case "GET", Place(kind=kind, namespace=namespace, name=None):
                answer = lists.listing(self._store, kind, namespace, request.query)
                partial = _PARTIAL in request.headers.get("accept", "")
                return Answer(200, lists.metadata_list(answer) if partial else answer)
            case "DELETE", Place(kind=kind, namespace=str(namespace), name=None):
                answer = lists.listing(self._store, kind, namespace, request.query)
                for item in answer["items"]:
                    objects.delete(self._store, kind, namespace, item["metadata"]["name"], {})
                return Answer(200, answer)
            case "POST", Place(kind=kind, namespace=str(namespace), name=None):
                self._check_namespace(namespace)
                body = _json_body(request, kind)
                return _written(201, objects.create(self._store, kind, namespace, body, _how(place, request)))
            case _, Place(kind=kind, namespace=str(namespace), name=str(name)):
                return self._act_on(kind, namespace, name, place, request)
        return Answer(405, status.ApiError(405, "MethodNotAllowed", "the server does not allow this method").body)

    def _act_on(self, kind: Kind, namespace: str, name: str, place: Place, request: Request) -> Answer:
        how = _how(place, request)
        match request.method:
            case "GET":
                item = self._store.get(kind, namespace, name)
                if item is None:
                    raise status.not_found(kind.plural, kind.group, name)
                return Answer(200, lists.metadata_only(item) if _PARTIAL in request.headers.get("accept", "") else item)
            case "PUT":
                body = _json_body(request, kind)
                return _written(200, objects.update(self._store, kind, namespace, name, body, how))
            case "PATCH":
                content_type = request.headers.get("content-type", "")
                patch = _parsed(request, kind)
                return _written(200, objects.patch(self._store, kind, namespace, name, content_type, patch, how))
            case "DELETE":
                options = _parsed(request, kind) if request.body.strip() else {}
                return Answer(200, objects.delete(self._store, kind, namespace, name, options or {}))
        return Answer(405, status.ApiError(405, "MethodNotAllowed", "the server does not allow this method").body)

    def _check_namespace(self, namespace: str) -> None:
        if namespace not in self._namespaces:
            raise status.not_found("namespaces", "", namespace)

    async def _watch(self, place: Place, request: Request, send: Send) -> None:
        partial = _PARTIAL in request.headers.get("accept", "")
        query = dict(request.query)
        if place.name is not None:
            query["fieldSelector"] = f"metadata.name={place.name}"
        lines = stream(self._store, place.kind, place.namespace, query, partial=partial)
        lists.check_version(query.get("resourceVersion", ""))
        lists.matcher(query)
        await send(_start(200, (("Content-Type", "application/json"), ("Cache-Control", "no-cache, private"))))
        try:
            async for line in lines:
                content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
                await send({"type": "http.response.body", "body": content, "more_body": True})
        except OSError:  # the client is gone
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _refusal(error: status.ApiError) -> Answer:
    wait = error.retry_after
    return Answer(error.code, error.body, (("Retry-After", str(wait)),) if wait is not None else ())


def _how(place: Place, request: Request) -> objects.Write:
    validation = request.query.get("fieldValidation", "Warn")
    return objects.Write(
        strict=validation == "Strict",
        warn=validation == "Warn",
        dry_run=request.query.get("dryRun") == "All",
        subresource=place.subresource == "status",
    )


def _written(code: int, written: objects.Written) -> Answer:
    warnings = tuple(("Warning", f"299 - {json.dumps(text)}") for text in written.warnings)
    return Answer(code, written.item, warnings)


def _json_body(request: Request, kind: Kind) -> Json:
    body = _parsed(request, kind)
    if not isinstance(body, dict):
        raise _unreadable(request, kind, "not an object")
    if not isinstance(body.get("metadata", {}), dict):
        raise _unreadable(request, kind, "metadata is not an object")
    return body


def _parsed(request: Request, kind: Kind) -> Any:
    try:
        return json.loads(request.body)
    except ValueError as error:
        raise _unreadable(request, kind, "unexpected end of JSON input") from error


def _unreadable(request: Request, kind: Kind, why: str) -> status.ApiError:
    start = request.body[:30].decode(errors="replace")
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind.name}): couldn't get version/kind; "
        f"json parse error: {why} ({start} ...)"
    )


async def _read(scope: Scope, receive: Receive) -> Request:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
    return Request(scope["method"], scope["path"], query, headers, body)


async def _send(send: Send, answer: Answer) -> None:
    if isinstance(answer.body, str):
        content, kind = answer.body.encode(), "text/plain; charset=utf-8"
    else:
        content, kind = json.dumps(answer.body, separators=(",", ":")).encode(), "application/json"
    headers = (("Content-Type", kind), ("Content-Length", str(len(content))), *answer.headers)
    await send(_start(answer.code, headers))
    await send({"type": "http.response.body", "body": content, "more_body": False})


def _start(code: int, headers: tuple[tuple[str, str], ...]) -> Json:
    encoded = [(key.encode("latin-1"), value.encode("latin-1", "replace")) for key, value in headers]
    return {"type": "http.response.start", "status": code, "headers": encoded}


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
