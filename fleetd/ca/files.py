"""Files of the authorities: replaced as a whole, and changed by one process at a time."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp

_LOCK = "changes.lock"
_READABLE = 0o644


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new content, never a part. Raises OSError.

    Two processes that replace it at once do not meet: each writes a file of its own, and the last one to rename it wins.
    """
    descriptor, fresh = mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), _READABLE)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def one_changes(directory: Path) -> Iterator[None]:
    """Wait until no other process changes the authorities in a directory, and keep others waiting meanwhile (flock(2)).

    It ends with the block, or with the process. Not reentrant. Raises OSError, also for root in the directory of a service
    that has a user of its own: keys that root leaves there are closed to that service.
    """
    owner = directory.stat().st_uid
    if os.geteuid() == 0 and owner != 0:
        said = f"it belongs to user {owner}, who could not read what root writes there: run this as that user"
        raise PermissionError(errno.EPERM, said, str(directory))
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
