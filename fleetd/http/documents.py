"""OpenAPI: bodies are read by hand, within their limits, and documented from the same models."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fleetd.app import messages
from fleetd.http.problems import PROBLEM_SCHEMA

_MODELS: tuple[type[BaseModel], ...] = (
    messages.EnrollAsk,
    messages.CheckAsk,
    messages.RedeemAsk,
    messages.Enroll,
    messages.Redeem,
    messages.Check,
    messages.Leave,
    messages.Event,
    messages.Empty,
)


def documented(name: str) -> dict[str, Any]:
    """Return what documents a JSON body of this schema."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {"requestBody": {"required": True, "content": content}}


def install_openapi(app: FastAPI) -> None:
    """Add the schemas of the bodies to the published document."""
    plain = app.openapi

    def with_bodies() -> dict[str, Any]:
        document = plain()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "ChallengeAsk" not in schemas:
            _, defined = models_json_schema(
                [(model, "validation") for model in _MODELS], ref_template="#/components/schemas/{model}"
            )
            schemas.update(defined["$defs"])
            asks = ("EnrollAsk", "CheckAsk", "RedeemAsk")
            schemas["ChallengeAsk"] = {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in asks]}
            schemas["Problem"] = PROBLEM_SCHEMA
        return document

    app.openapi = with_bodies  # type: ignore[method-assign]
