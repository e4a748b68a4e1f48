"""Times as machines read them."""

from datetime import UTC, datetime


def stamp(time: datetime) -> str:
    """Return the time as RFC 3339 UTC, to the millisecond."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
