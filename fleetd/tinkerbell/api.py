"""Calls of the Kubernetes API: retries, typed errors, and creates that are never repeated blindly."""

import functools
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException

from fleetd.ports import OutageError, RefusedError

Json = dict[str, Any]

TRIES = 4
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 3.0
"""Seconds between tries; doubled each time, with jitter."""
PAGE = 500


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object that fleetd handles."""

    group: str
    plural: str
    kind: str
    version: str = "v1alpha1"

    @property
    def api_version(self) -> str:
        """The value of apiVersion."""
        return f"{self.group}/{self.version}"

    def body(self, name: str, labels: dict[str, str], spec: Json) -> Json:
        """Return a new object."""
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "spec": spec}


HARDWARE = Resource("tinkerbell.org", "hardware", "Hardware")
TEMPLATES = Resource("tinkerbell.org", "templates", "Template")
WORKFLOWS = Resource("tinkerbell.org", "workflows", "Workflow")
MACHINES = Resource("bmc.tinkerbell.org", "machines", "Machine")
JOBS = Resource("bmc.tinkerbell.org", "jobs", "Job")
TASKS = Resource("bmc.tinkerbell.org", "tasks", "Task")


TROUBLE = (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a call raises; a ValueError where the answer cannot be read."""


class _NoObjectError(ValueError):
    """The answer is no object of Kubernetes: a page, which comes with status 200 too."""


class ConflictError(Exception):
    """The object changed since it was read: read it again."""


class DeniedError(OutageError):
    """The API does not let fleetd in, or not do this."""


class NotServedError(OutageError):
    """Nothing at the API's address serves this kind of objects."""


@dataclass(frozen=True, slots=True)
class Created:
    """An object that exists now; `existed` when it was there before, or when the answer to its creation was lost."""

    item: Json
    existed: bool


@dataclass
class Api:
    """The objects of one namespace. Raises OutageError (try later) and RefusedError (trying again will not help)."""

    configuration: Any
    """`kubernetes.client.Configuration`."""
    namespace: str
    timeout: float = 20.0
    """Seconds for each answer."""
    sleep: Callable[[float], None] = time.sleep
    _client: Any = field(init=False, repr=False)
    _custom: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the client."""
        self._client = kubernetes.client.ApiClient(self.configuration)
        self._custom = kubernetes.client.CustomObjectsApi(self._client)

    def get(self, resource: Resource, name: str) -> Json | None:
        """Return an object, or None."""
        return self._present(
            lambda: self._custom.get_namespaced_custom_object(*self._at(resource), name, **self._limits)
        )

    def labelled(self, resource: Resource, selector: str) -> list[Json]:
        """Return the objects that a label selector matches."""
        items: list[Json] = []
        token = ""
        while True:
            where: Json = {"label_selector": selector, "limit": PAGE, "_continue": token, **self._limits}
            page: Json = self._tried(functools.partial(self._list, *self._at(resource), **where))
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    def create(self, resource: Resource, body: Json) -> Created:
        """Create an object; one of that name that is there already is returned as such, and left as it is.

        A lost answer is looked up before anything is sent again.
        """
        name = body["metadata"]["name"]
        problem = ""
        for attempt in range(TRIES):
            try:
                item = _object(
                    self._custom.create_namespaced_custom_object(
                        *self._at(resource), body, field_validation="Strict", **self._limits
                    )
                )
            except TROUBLE as error:
                reason = _reason(error)
                if reason != "AlreadyExists" and not _passing(error):
                    raise _refused(error) from error
                problem = _words(error)
            else:
                return Created(item, existed=False)
            present = self.get(resource, name)
            if present is not None:
                return Created(present, existed=True)
            self._pause(attempt, None)
        raise OutageError(f"Kubernetes did not create {resource.kind} {name}: {problem}")

    def replace(self, resource: Resource, body: Json) -> Json:
        """Write a whole object that was read before. Raises ConflictError when it changed meanwhile."""
        name = body["metadata"]["name"]

        def write() -> Json:
            try:
                written: Json = self._custom.replace_namespaced_custom_object(
                    *self._at(resource), name, body, field_validation="Strict", **self._limits
                )
            except ApiException as error:
                if _reason(error) == "Conflict":
                    raise ConflictError(_words(error)) from error
                raise
            return written

        replaced: Json = self._tried(write)
        return replaced

    def annotate(self, resource: Resource, name: str, key: str, value: str) -> Json | None:
        """Set one annotation (merge patch); returns the object, or None when there is none."""
        body = {"metadata": {"annotations": {key: value}}}
        return self._present(
            lambda: self._custom.patch_namespaced_custom_object(*self._at(resource), name, body, **self._limits)
        )

    def delete(self, resource: Resource, name: str, uid: str | None = None) -> None:
        """Delete an object, only the one with this uid where given; absent, or another one by now, is fine."""
        options = {"preconditions": {"uid": uid}} if uid else {}

        def remove() -> Any:
            try:
                return self._custom.delete_namespaced_custom_object(
                    *self._at(resource), name, body=options, **self._limits
                )
            except ApiException as error:
                if _reason(error) == "Conflict" and uid and self._is_another(resource, name, uid):
                    return {"metadata": {}}
                raise

        self._present(remove)

    def _is_another(self, resource: Resource, name: str, uid: str) -> bool:
        there = self.get(resource, name)
        return there is None or there["metadata"]["uid"] != uid

    def secret_names(self, selector: str) -> frozenset[str]:
        """Return the names of Secrets that a label selector matches; their content is not asked for."""
        listed = self._tried(lambda: self._metadata_of_secrets(selector))
        if not str(listed.get("kind", "")).startswith("PartialObjectMetadata"):
            raise RefusedError("Kubernetes sent whole Secrets where metadata was asked for; they were thrown away.")
        return frozenset(item["metadata"]["name"] for item in listed["items"])

    def _metadata_of_secrets(self, selector: str) -> Any:
        # By the path itself: the client of core/v1 loads the models of all its kinds, 20 MB in each process.
        asked = self._client.param_serialize(
            method="GET",
            resource_path="/api/v1/namespaces/{namespace}/secrets",
            path_params={"namespace": self.namespace},
            query_params=[("labelSelector", selector)],
            header_params={"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
            auth_settings=["BearerToken"],
        )
        answer = self._client.call_api(*asked, _request_timeout=(5, self.timeout))
        content: bytes = answer.read()
        if not 200 <= answer.status <= 299:
            raise ApiException(http_resp=answer)
        return json.loads(content)

    def stream(self, resource: Resource, version: str, seconds: int, read_timeout: float) -> Any:
        """Open a watch from a version; returns urllib3's response, to be read line by line."""
        return self._custom.list_namespaced_custom_object(
            *self._at(resource),
            watch=True,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=seconds,
            _preload_content=False,
            _request_timeout=(5, read_timeout),
        )

    def snapshot(self, resource: Resource) -> tuple[str, list[Json]]:
        """Return the version and the objects of a kind, fleetd's or not."""
        listed: Json = self._tried(
            lambda: self._custom.list_namespaced_custom_object(*self._at(resource), **self._limits)
        )
        version, items = listed["metadata"].get("resourceVersion"), listed.get("items")
        if not isinstance(version, str) or not isinstance(items, list):
            raise OutageError(f"Kubernetes is not to be had: its answer is no list of {resource.plural}")
        return version, items

    def _list(self, *place: str, **options: Any) -> Any:
        return self._custom.list_namespaced_custom_object(*place, **options)

    @property
    def _limits(self) -> Json:
        return {"_request_timeout": (5, self.timeout)}

    def _at(self, resource: Resource) -> tuple[str, str, str, str]:
        return resource.group, resource.version, self.namespace, resource.plural

    def _present(self, call: Callable[[], Any]) -> Json | None:
        """Return what a call returns, or None when the object does not exist."""
        try:
            found: Json = self._tried(call)
        except LookupError:
            return None
        return found

    def _tried(self, call: Callable[[], Any]) -> Json:
        """Return the object that an idempotent call returns, trying again while the trouble may pass.

        Raises LookupError when the object does not exist: by Kubernetes's own word, not by a page with status 404.
        """
        for attempt in range(TRIES):
            try:
                return _object(call())
            except TROUBLE as error:
                if _reason(error) == "NotFound":
                    raise LookupError(_words(error)) from error
                if not _passing(error):
                    raise _refused(error) from error
                if attempt == TRIES - 1:
                    raise _outage(error) from error
                self._pause(attempt, _retry_after(error))
        raise AssertionError("unreachable")

    def _pause(self, attempt: int, asked: float | None) -> None:
        pause = min(LONGEST_PAUSE, asked if asked is not None else FIRST_PAUSE * 2**attempt)
        self.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - jitter


def _passing(error: Exception) -> bool:
    """Tell whether the same call may succeed later.

    A 409 may, where it is a conflict of writers; 401 and 403, since a token is replaced and a role is mended without a
    word to fleetd; and whatever is no Status: something in front of the API said it, or an API that begins to serve.
    """
    if not isinstance(error, ApiException) or _status_body(error).get("kind") != "Status":
        return True
    return _reason(error) == "Conflict" or error.status in {401, 403, 408, 410, 429} or error.status >= 500


def _object(answer: Any) -> Json:
    """Return an answer that must be an object."""
    if not isinstance(answer, dict) or not isinstance(answer.get("metadata"), dict):
        raise _NoObjectError("the answer is no object of Kubernetes")
    return answer


def _reason(error: Exception) -> str:
    """Return the Status reason: 409 alone does not tell AlreadyExists from Conflict."""
    return str(_status_body(error).get("reason", ""))


def _status_body(error: Exception) -> Json:
    try:
        body = json.loads(getattr(error, "body", None) or "{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _words(error: Exception) -> str:
    said = _status_body(error).get("message") or getattr(error, "reason", None) or str(error)
    hint = " Check the kubeconfig and the role of fleetd." if getattr(error, "status", None) in {401, 403} else ""
    return str(said)[:300] + hint


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "headers", None) or {}
    try:
        return float(headers.get("Retry-After", ""))
    except ValueError:
        return None


def _outage(error: Exception) -> OutageError:
    status = getattr(error, "status", None)
    if status in {401, 403}:
        return DeniedError(f"Kubernetes refused ({status}): {_words(error)}")
    if status == 404:
        return NotServedError(f"Kubernetes does not serve this kind of objects: {_words(error)}")
    return OutageError(f"Kubernetes is not to be had: {_words(error)}")


def _refused(error: Exception) -> RefusedError:
    return RefusedError(f"Kubernetes refused ({getattr(error, 'status', None)}): {_words(error)}")
