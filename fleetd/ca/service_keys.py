"""The service keys on disk, followed while the process runs: what signs, and what machines are to pin.

During a rotation both keys are published and the old one still signs: a machine learns the new one from an answer that it
can verify. Only the completion lets the new one sign.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import structlog
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from fleetd.ca.files import replace_file
from fleetd.ca.generations import FILE, SERVICE, Generations, TreeError, file_name, read_generations
from fleetd.ca.signer import KeyFileError, service_key
from fleetd.core.exchange.jwk import jwk, thumbprint
from fleetd.secret_files import SecretFileError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The service keys in force at one moment."""

    signing: ed25519.Ed25519PrivateKey
    public: tuple[ed25519.Ed25519PublicKey, ...]
    """What machines pin; the signing one first, then the one that follows it."""

    def kids(self) -> tuple[str, ...]:
        """Return the thumbprints of the keys that machines pin."""
        return tuple(thumbprint(key) for key in self.public)

    def jwks(self) -> bytes:
        """Return the keys that machines pin as a JWKS (RFC 7517), JSON."""
        return jwks_of(self.public)


class ServiceKeys:
    """The service keys of a directory, read again when a file changed; an unusable set leaves the old one in force."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._stamp: tuple[tuple[int, ...], ...] | None = None
        self._files: tuple[Path, ...] = (directory / FILE,)
        self._ring: KeyRing | None = None
        self.problem = ""
        """Why the set on disk is not the one in force; empty where it is."""

    def __call__(self) -> KeyRing:
        """Return the keys in force. Raises TreeError, KeyFileError and SecretFileError while there never was a usable set."""
        with self._lock:
            stamp = _stamp(self._files)
            if self._ring is None or stamp != self._stamp:
                self._read()
            assert self._ring is not None
            return self._ring

    def _read(self) -> None:
        # Stamps are taken before the files are read: a change in between is seen at the next call.
        self._stamp = _stamp(self._files)
        try:
            generations = read_generations(self._directory, SERVICE)
            self._files = (self._directory / FILE, *key_files(self._directory, generations))
            self._stamp = _stamp(self._files)
            self._ring, self.problem = read_ring(self._directory, generations), ""
        except (TreeError, KeyFileError, SecretFileError) as error:
            if self._ring is None:
                raise
            if self.problem != str(error):
                _log.error("the service keys on disk are not usable; the old ones stay in force", error=str(error))
            self.problem = str(error)


def key_files(directory: Path, generations: Generations) -> tuple[Path, ...]:
    """Return the key files in force, the one that signs first."""
    return tuple(directory / f"{file_name(SERVICE, number)}.key" for number in reversed(generations.in_force))


def read_ring(directory: Path, generations: Generations) -> KeyRing:
    """Read the keys in force. Raises KeyFileError and SecretFileError."""
    signing, *following = (service_key(file) for file in key_files(directory, generations))
    return KeyRing(signing, (signing.public_key(), *(key.public_key() for key in following)))


def keep_public_half(key_file: Path) -> None:
    """Write the public half of a key beside it, before the key is removed: the audit that it signed stays verifiable."""
    public = service_key(key_file).public_key()
    replace_file(key_file.with_suffix(".pub"), public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def keys_ever(directory: Path) -> tuple[ed25519.Ed25519PublicKey, ...]:
    """Return the public halves of all keys that ever signed, those in force first: the audit is verified with them.

    Raises TreeError, KeyFileError and SecretFileError.
    """
    generations = read_generations(directory, SERVICE)
    past = []
    for number in reversed(generations.retired):
        file = directory / f"{file_name(SERVICE, number)}.pub"
        try:
            key = load_pem_public_key(file.read_bytes())
        except (OSError, ValueError) as error:
            raise KeyFileError(f"{file}: {error}; restore it from the backup") from error
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise KeyFileError(f"{file}: not an Ed25519 public key")
        past.append(key)
    return (*read_ring(directory, generations).public, *past)


def jwks_of(keys: tuple[ed25519.Ed25519PublicKey, ...]) -> bytes:
    """Return public keys as a JWKS (RFC 7517, RFC 8037), JSON."""
    listed = [{**jwk(key), "kid": thumbprint(key), "use": "sig", "alg": "EdDSA"} for key in keys]
    return json.dumps({"keys": listed}, separators=(",", ":")).encode()


def _stamp(files: tuple[Path, ...]) -> tuple[tuple[int, ...], ...]:
    """Return what changes when a file is replaced, or when its owner or mode changes."""
    return tuple(_one(file) for file in files)


def _one(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
