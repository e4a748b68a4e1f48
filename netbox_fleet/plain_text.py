"""What people and machines write, without characters that mislead a reader or break a store."""

import re

# C0 and C1 controls but tab and newline, lone surrogates, and the marks that turn the direction of text around.
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Replace unwanted characters by the replacement character."""
    return _UNWANTED.sub("\ufffd", text)
