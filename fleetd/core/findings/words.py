"""How values read inside the sentences of findings."""

from datetime import datetime


def listed(names: tuple[str, ...]) -> str:
    """Return the names with commas between, or that there are none."""
    return ", ".join(names) if names else "nothing"


def moment(at: datetime | None) -> str:
    """Return a time as an owner reads it."""
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
