"""Answers as bytes: what a repetition of the same request gets again."""

import json
from collections.abc import Mapping
from typing import Any

from fleetd.app.exchange import Speaker
from fleetd.app.refusals import CallRefusedError
from fleetd.store.tokens import Answer

PROBLEM = "application/problem+json"


def signed_answer(
    speaker: Speaker, typ: str, payload: Mapping[str, Any], status: int = 200, retry_after: int | None = None
) -> Answer:
    """Return the payload, signed by the service key."""
    body = json.dumps({"jws": speaker.sign(typ, payload)}).encode()
    return Answer(status, "application/json", body, retry_after)


def problem_answer(refusal: CallRefusedError) -> Answer:
    """Return the refusal as an answer that can be kept."""
    body = json.dumps(refusal.as_problem()).encode()
    return Answer(refusal.status, PROBLEM, body, refusal.retry_after)
