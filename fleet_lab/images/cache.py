"""Built images, kept by the hash of what they were built from, shared by all checkouts of a user."""

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet_lab.places import cache

# A change in how images are built that no input shows makes this number grow.
_BUILDER = "1"


def image_cache() -> "ImageCache":
    """The cache that all checkouts of this user share."""
    return ImageCache(cache() / "images")


def content_key(*inputs: str | bytes) -> str:
    """32 hex digits over the inputs; each is framed by its length, so that no two lists collide."""
    digest = hashlib.sha256()
    for part in (_BUILDER, *inputs):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:32]


def folder_bytes(files: Iterable[Path], below: Path) -> bytes:
    """Names and contents of files, in order of name, as one input of `content_key`."""
    digest = hashlib.sha256()
    for path in sorted(files):
        name = path.relative_to(below).as_posix().encode()
        digest.update(len(name).to_bytes(4, "big") + name)
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


@dataclass(frozen=True, slots=True)
class ImageCache:
    """A folder with one entry (file or folder) for each name and content key."""

    directory: Path

    def get(self, name: str, key: str, build: Callable[[Path], None]) -> Path:
        """Return the entry, building it when it is not there.

        `build` gets a path that does not exist yet and must create it. Two processes that want the same entry wait
        for one build (flock); a build that was cut leaves nothing behind that could be taken for an entry.
        """
        entry = self.directory / f"{name}-{key}"
        if entry.exists():
            return entry
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._lock(name):
            if entry.exists():
                return entry
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.directory))
            try:
                made = scratch / "entry"
                build(made)
                made.rename(entry)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            self._forget_others(name, entry)
        return entry

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        with (self.directory / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _forget_others(self, name: str, kept: Path) -> None:
        """Keep the two newest entries of a name: two checkouts may alternate, a hundred old builds are waste."""
        others = [path for path in self.directory.glob(f"{name}-{'?' * 32}") if path != kept]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[2:]:
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink(missing_ok=True)
