"""Where the lab keeps things: state of a checkout, sockets, and the cache that all checkouts share."""

import hashlib
import os
import pwd
import secrets
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


class LabError(RuntimeError):
    """The lab cannot go on; the message says what failed, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one lab. `name` keeps several labs of one checkout apart."""

    name: str = "demo"

    @property
    def state(self) -> Path:
        """State of this lab inside the checkout, ignored by git."""
        return _made(CHECKOUT / ".lab" / self.name)

    @property
    def key(self) -> str:
        """Eight hex digits that tell this checkout and lab from others on the host."""
        return hashlib.sha256(f"{CHECKOUT}\0{self.name}\0{os.getuid()}".encode()).hexdigest()[:8]

    @property
    def sockets(self) -> Path:
        """A short folder for UNIX sockets: their paths are limited to 107 bytes."""
        return _made(Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"fl-{self.key}", mode=0o700)

    @property
    def database(self) -> Path:
        """PostgreSQL's folder; as root outside the checkout, since the server runs as another user."""
        if os.getuid() == 0:
            return Path("/var/tmp") / f"fleet-lab-{self.key}"
        return self.state / "postgres"


def cache() -> Path:
    """Return the cache folder shared by all checkouts of this user."""
    root = (
        os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir) / ".cache"
    )
    return _made(Path(root) / "fleet-lab")


def free_port(address: str = "127.0.0.1") -> int:
    """Return a TCP port that is free on the address right now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def kept_secret(file: Path) -> str:
    """Return the secret text of a file, made with mode 0600 on first use, so that it survives a restart."""
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_urlsafe(60))
    return file.read_text()


def _made(folder: Path, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    return folder
