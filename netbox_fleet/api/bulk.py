"""One action on several records by one call: all or none, with the reason of each refusal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from netbox_fleet.actions.refusals import RefusalError


def rows_of(body: Serializer) -> list[dict[str, Any]]:
    """Return the rows of a body made with `many=True`, each with its id. Raises RefusalError and ValidationError."""
    data: Any = body.initial_data
    if not isinstance(data, list) or not data:
        raise RefusalError("The body must be a list of objects with an id.", "bad-body")
    body.is_valid(raise_exception=True)
    rows = list(body.validated_data)
    if len({row["id"] for row in rows}) != len(rows):
        raise RefusalError("A record is named twice.", "bad-body")
    return rows


def all_or_none(
    visible: QuerySet, rows: Sequence[Mapping[str, Any]], act: Callable[[Mapping[str, Any]], Any]
) -> Response | None:
    """Act on every row; where one is refused change nothing and return the answer that says why."""
    wanted = [row["id"] for row in rows]
    known = set(visible.filter(pk__in=wanted).values_list("pk", flat=True))
    errors = {pk: {"detail": "No such record.", "code": "not-found"} for pk in wanted if pk not in known}
    status = 400
    with transaction.atomic():
        for row in rows if not errors else ():
            try:
                act(row)
            except RefusalError as problem:
                errors[row["id"]] = {"detail": problem.detail, "code": problem.code}
                status = problem.status
        if errors:
            transaction.set_rollback(True)
    if not errors:
        return None
    answer = {"detail": "Nothing was changed: some were refused.", "code": "refused", "errors": errors}
    return Response(answer, status=status)
