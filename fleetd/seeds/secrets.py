"""The owner's secrets directory: one file 0600 a secret, named in the class."""

import re
from collections.abc import Sequence
from pathlib import Path

from fleetd.secret_files import SecretFileError, secret_text

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def secret_values(directory: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the named secrets. Raises SecretFileError with every one that cannot be used."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for name in names:
        try:
            values[name] = _read(directory, name)
        except SecretFileError as error:
            problems.append(str(error))
    if problems:
        raise SecretFileError("; ".join(problems))
    return values


def _read(directory: Path, name: str) -> str:
    # Names come from classes.json, which the schema checks; this is the second lock on the way out of the directory.
    if not _NAME.fullmatch(name):
        raise SecretFileError(f"{name[:40]!r} is not a name of a secret")
    return secret_text(directory / name)
