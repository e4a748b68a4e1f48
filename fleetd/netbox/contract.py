"""The version of what the plugin's two endpoints hold and mean (docs/reference/plugin-api.md, "Contract")."""

from collections.abc import Mapping
from typing import Final

HEADER: Final = "Fleet-Contract"
SPOKEN: Final = "1"
"""Grows with every change after which this service would misread an older plugin, or be misread by it."""


def contract_problem(headers: Mapping[str, str]) -> str:
    """Say why an answer with these headers is not to be believed, or nothing."""
    named = headers.get(HEADER)
    if named == SPOKEN:
        return ""
    if named is None:
        return (
            "NetBox's plugin names no contract: it is older than this fleetd, or something between them removes the "
            f"header {HEADER}. Bring netbox_fleet to fleetd's version"
        )
    return (
        f"NetBox's plugin answers by contract {named[:9]!r}, this fleetd speaks {SPOKEN}: bring both to the same version, "
        "the plugin first"
    )
