"""Where the keys of the issuing CAs lie: in files beside their certificates, or in a token (fleetd/ca/token.py)."""

from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec

from fleetd.ca.signer import FileSigner, Signer, write_key


class KeyStore(Protocol):
    """Keys by name of their authority: `devid`, `devid-2`. Raises KeyFileError and SecretFileError."""

    def exists(self, name: str) -> bool:
        """Tell whether there is a key of this name."""
        ...

    def make(self, name: str) -> None:
        """Make a new P-256 key; one that is there is never replaced."""
        ...

    def signer(self, name: str) -> Signer:
        """Return what signs with the key; whether it can is seen when it does."""
        ...

    def remove(self, name: str) -> None:
        """Destroy the key; an absent one is fine."""
        ...


class FileKeys:
    """PEM files of mode 0600 in a directory: `<name>.key`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def exists(self, name: str) -> bool:
        """Tell whether the file is there."""
        return self._file(name).exists()

    def make(self, name: str) -> None:
        """Write a new key. Raises FileExistsError."""
        write_key(self._file(name), ec.generate_private_key(ec.SECP256R1()))

    def signer(self, name: str) -> Signer:
        """Return what reads the file at each signature."""
        return FileSigner(self._file(name))

    def remove(self, name: str) -> None:
        """Delete the file."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.key"
