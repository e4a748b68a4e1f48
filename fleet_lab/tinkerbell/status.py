"""What the API says when it refuses: Status bodies with the codes, reasons and words of a Kubernetes API server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that was not accepted."""

    reason: str
    message: str
    field: str

    def sentence(self) -> str:
        """Return the cause as it stands in the Status message."""
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """An answer other than the one asked for; carries the HTTP code and the Status body."""

    def __init__(
        self, code: int, reason: str | None, message: str, details: Json | None = None, metadata: Json | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata or {},
            "status": "Failure",
            "message": message,
        }
        if reason is not None:
            self.body["reason"] = reason
        if details is not None:
            self.body["details"] = details
        self.body["code"] = code

    @property
    def retry_after(self) -> int | None:
        """Seconds for a Retry-After header, where the details name them."""
        seconds: int | None = self.body.get("details", {}).get("retryAfterSeconds")
        return seconds


def bad_request(message: str) -> ApiError:
    """400: the request itself cannot be understood."""
    return ApiError(400, "BadRequest", message)


def not_found(resource: str, group: str, name: str) -> ApiError:
    """404 for an object; `resource` is the plural."""
    return ApiError(404, "NotFound", f'{_full(resource, group)} "{name}" not found', _details(name, group, resource))


def already_exists(resource: str, group: str, name: str) -> ApiError:
    """409 with reason AlreadyExists."""
    return ApiError(
        409, "AlreadyExists", f'{_full(resource, group)} "{name}" already exists', _details(name, group, resource)
    )


def conflict(resource: str, group: str, name: str, why: str) -> ApiError:
    """409 with reason Conflict."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {_full(resource, group)} "{name}": {why}',
        _details(name, group, resource),
    )


def modified(resource: str, group: str, name: str) -> ApiError:
    """409 for a write that names an older resourceVersion."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, group, name, why)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause a field."""
    listed = ", ".join(cause.sentence() for cause in causes)
    text = listed if len(causes) == 1 else f"[{listed}]"
    details = _details(name, group, kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", f'{_full(kind, group)} "{name}" is invalid: {text}', details)


def expired(message: str, metadata: Json | None = None) -> ApiError:
    """410: a resourceVersion or continue token is older than what is kept."""
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_version(asked: int, current: int) -> ApiError:
    """504 for a LIST at a resourceVersion that does not exist yet."""
    details: Json = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details)


def deleted(resource: str, group: str, name: str, uid: str) -> Json:
    """Body of a DELETE that removed the object."""
    details = _details(name, group, resource)
    details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _full(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str) -> Json:
    return {"name": name, "group": group, "kind": kind} if group else {"name": name, "kind": kind}
