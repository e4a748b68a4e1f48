"""What views with actions have in common: who may call one, and what a refused one answers."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from rest_framework.settings import api_settings
from rest_framework.viewsets import GenericViewSet
from utilities.exceptions import AbortRequest

from netbox_fleet.actions.refusals import NotPermittedError, RefusalError
from netbox_fleet.api.actions import refused
from netbox_fleet.api.permissions import ActionPermission

_CODES = {400: "bad-body", 403: NotPermittedError.code, 404: "not-found"}
_MOST_PROBLEMS = 10
_OF_ALL = {"detail", api_settings.NON_FIELD_ERRORS_KEY}


class ActingViewSet(GenericViewSet):
    """Answers every refused action with `detail` and `code`, also where it never came to the action."""

    acts: frozenset[str] = frozenset()
    """Names of the actions; those on several records begin with `bulk_do_`."""

    def get_permissions(self):
        return [ActionPermission()] if self._acting() else super().get_permissions()

    def handle_exception(self, exc):
        if not self._acting():
            return super().handle_exception(exc)
        if isinstance(exc, AbortRequest):
            exc = RefusalError(exc.message)
        if isinstance(exc, RefusalError):
            return refused(exc)
        answer = super().handle_exception(exc)
        problems = islice(_problems(answer.data), _MOST_PROBLEMS)
        answer.data = {"detail": " ".join(problems), "code": _CODES.get(answer.status_code, RefusalError.code)}
        return answer

    def _acting(self):
        return bool(self.action) and self.action.removeprefix("bulk_do_") in self.acts


def _problems(found: Any, where: str = "") -> Iterator[str]:
    """Yield what REST framework has against a call, each with the field that it is about."""
    if isinstance(found, Mapping):
        for name, part in found.items():
            place = f"row {name}: " if isinstance(name, int) else f"{name}: "
            yield from _problems(part, where if name in _OF_ALL else where + place)
    elif isinstance(found, list):
        for part in found:
            yield from _problems(part, where)
    else:
        yield f"{where}{found}"
