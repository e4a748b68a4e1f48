"""Private keys of the authorities, behind one port: a file, or a token that never gives the key away."""

from pathlib import Path
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from fleetd.secret_files import create_secret, read_secret


class KeyFileError(ValueError):
    """A key file cannot be used; the message says which and what to do."""


class Signer(Protocol):
    """Something that signs certificates and revocation lists with an EC key."""

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key, or an object that behaves as one and delegates `sign`."""
        ...


class FileSigner:
    """A key in a PEM file of mode 0600 that belongs to root or to the service."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """Read the key. Raises KeyFileError and SecretFileError with what is wrong with the file."""
        key = _loaded(self._path)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise KeyFileError(f"{self._path}: not an EC private key")
        return key


def service_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Read the Ed25519 key that signs what machines believe. Raises KeyFileError and SecretFileError."""
    key = _loaded(path)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise KeyFileError(f"{path}: not an Ed25519 private key")
    return key


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> None:
    """Write a new key file, 0600 and whole from its first moment.

    Raises FileExistsError: keys are never overwritten. Raises OSError.
    """
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    create_secret(path, pem)


def _loaded(path: Path) -> object:
    pem = read_secret(path)
    try:
        return load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path}: not a PEM private key without password") from error
