"""Applying the nodes file: one call to the plugin, as the person whose token it is."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import requests

from fleetd.netbox.inventory import Access, headers_of, problem_of, session_of
from fleetd.ports import OutageError

_ANSWERS = frozenset({200, 409})
_SILENCE = 600.0
"""Seconds without a word until NetBox counts as gone; it tells how far it is every few nodes."""


def apply_nodes(
    access: Access,
    nodes: Sequence[dict[str, Any]],
    *,
    dry_run: bool,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> dict[str, Any]:
    """Send the nodes and return the answer (docs/reference/plugin-api.md). All of them are applied, or none.

    Raises OutageError where NetBox cannot be reached or breaks off, in which case it undoes all, and RefusedError.
    """
    url = f"{access.url.rstrip('/')}/api/plugins/fleet/nodes/"
    try:
        with session_of(access) as session:
            answer = session.post(
                url,
                json={"nodes": list(nodes), "dry_run": dry_run},
                headers=headers_of(access),
                timeout=(access.timeout, _SILENCE),
                allow_redirects=False,
                stream=True,
            )
            if answer.status_code not in _ANSWERS:
                raise problem_of(answer.status_code, "nodes/", answer.text)
            return _last(answer, progress)
    except requests.RequestException as error:
        raise OutageError(
            f"NetBox at {access.url} cannot be reached or broke off ({type(error).__name__}): run the same again"
        ) from error


def _last(answer: requests.Response, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Read the lines as they come; the one with the outcome is the last."""
    for line in answer.iter_lines():
        if not line:
            continue
        try:
            row = json.loads(line)
        except ValueError:
            break
        if isinstance(row, dict) and "outcome" in row:
            return row
        if isinstance(row, dict) and {"done", "of"} <= row.keys():
            progress(int(row["done"]), int(row["of"]))
    raise OutageError("NetBox broke off before it said what it did: nothing was applied; run the same again")
