"""The words that people give with what they do, as they are kept."""

from netbox_fleet.actions.refusals import RefusalError
from netbox_fleet.plain_text import clean_text

REASON_LENGTH = 500


class NoReasonError(RefusalError):
    """This action needs a reason."""

    status = 400
    code = "no-reason"


def kept(reason: str) -> str:
    """Return the reason as it is kept: cleaned, and at most 500 characters."""
    return clean_text(reason)[:REASON_LENGTH]


def demanded(reason: str) -> str:
    """Return the reason as it is kept. Raises NoReasonError where there is none."""
    found = kept(reason.strip())
    if not found:
        raise NoReasonError("Give a reason: it is kept with what you say.")
    return found
