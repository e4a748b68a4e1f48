"""Secrets come from files that nobody else can read or replace."""

import os
import stat
from pathlib import Path
from tempfile import mkstemp


class SecretFileError(ValueError):
    """A secret file is missing, empty, or open to others; the message says which and what to do."""


def read_secret(path: Path, limit: int = 1 << 20) -> bytes:
    """Return the content of a secret file, at most `limit` bytes.

    The file must be regular, owned by root or by the running user, and closed to group and others (0600 or less).
    Checked on the open file, so that it cannot be exchanged in between. Raises SecretFileError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SecretFileError(f"{path}: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SecretFileError(f"{path}: not a regular file")
        if status.st_uid not in {0, os.geteuid()}:
            raise SecretFileError(f"{path}: owned by user {status.st_uid}; it must belong to root or to the service")
        if stat.S_IMODE(status.st_mode) & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise SecretFileError(f"{path}: mode {mode:04o} lets others read it; use chmod 0600")
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            content = stream.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise SecretFileError(f"{path}: larger than {limit} bytes")
    if not content.strip():
        raise SecretFileError(f"{path}: empty")
    return content


def secret_text(path: Path) -> str:
    """Return the secret as text without the newline that editors put at its end. Raises SecretFileError."""
    try:
        return read_secret(path).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise SecretFileError(f"{path}: not UTF-8 text") from error


def make_secret(path: Path, content: bytes) -> bool:
    """Write a new secret file, 0600 from its first moment; False where there is one already.

    Raises SecretFileError when it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_secret(path, content)
    except FileExistsError:
        return False
    except OSError as error:
        raise SecretFileError(f"{path}: {error.strerror}") from error
    return True


def create_secret(path: Path, content: bytes) -> None:
    """Write a new file, 0600 from its first moment, that is there as a whole or not at all, whenever the host stops.

    Raises FileExistsError where there is anything of that name: secrets are never overwritten. Raises OSError.
    """
    descriptor, fresh = mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        path.hardlink_to(fresh)  # unlike a renaming, it replaces nothing
    finally:
        Path(fresh).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
