"""TLS files of a listener: tested as a set before they serve, followed on disk, and never put in force when they would fail."""

import itertools
import os
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from fleetd.secret_files import SecretFileError, read_secret

_log = structlog.get_logger(__name__)
_CLOCKS_DIFFER: Final = timedelta(minutes=5)
_NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME (x509_vfy.h); the dates are judged before, in words


class TlsFilesError(ValueError):
    """Certificate and key cannot serve; the message says why and what to do."""


class FollowedTls:
    """The TLS context of a listener. A set on disk that is not usable leaves the one before in force.

    Each set has a context of its own, which a connection is given when it greets: OpenSSL keeps one certificate of each kind
    of key, so that in one context an RSA certificate would not replace an EC one, but be served beside it.
    """

    def __init__(self, certificate: Path, key: Path, now: Callable[[], datetime]) -> None:
        """Load the first set. Raises TlsFilesError."""
        self._files, self._now = (certificate, key), now
        self._seen = self._stamp()
        pem = tested_set(certificate, key, now())
        self._current = _loaded(*pem)
        self.context = _loaded(*pem)
        self.context.sni_callback = self._give
        self._until = _links(certificate, pem[0])[0].not_valid_after_utc
        self._refused = ""

    @property
    def problem(self) -> str:
        """What is wrong, in words; empty while all is well."""
        if self._refused:
            return f"the TLS files on disk are not usable, the ones before stay in force: {self._refused}"
        if self._now() >= self._until:
            return (
                f"the TLS certificate in force ended on {self._until:%Y-%m-%d %H:%M}: put a new one in {self._files[0]}"
            )
        return ""

    def look(self) -> bool:
        """Put a changed set in force if it is usable; tell whether that was done."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        try:
            pem = tested_set(*self._files, self._now())
            # The very bytes that were tested, whatever lies on disk by now.
            self._current = _loaded(*pem)
        except TlsFilesError as error:
            if self._refused != str(error):
                _log.error("new TLS files are not usable; the ones before stay in force", error=str(error))
            self._refused = str(error)
            return False
        self._seen, self._refused = stamp, ""
        self._until = _links(self._files[0], pem[0])[0].not_valid_after_utc
        return True

    def _give(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        connection.context = self._current

    def _stamp(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_one(file) for file in self._files)


def tested_set(certificate: Path, key: Path, now: datetime) -> tuple[bytes, bytes]:
    """Return certificate chain and key, PEM, after they served a handshake in memory. Raises TlsFilesError.

    The key file must belong to root or to the service and be closed to others; certificate and key must be a pair, each
    link in force now and signed by the next one.
    """
    try:
        key_pem, pem = read_secret(key), certificate.read_bytes()
        private = load_pem_private_key(key_pem, None)
    except OSError as error:
        raise TlsFilesError(f"{certificate}: {error.strerror}") from error
    except SecretFileError as error:
        raise TlsFilesError(str(error)) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise TlsFilesError(f"{key}: not a PEM private key without password") from error
    links = _links(certificate, pem)
    try:
        _judge(certificate, key, private, links, now)
    except TlsFilesError:
        raise
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise TlsFilesError(f"{certificate}: a certificate that cannot be read: {error}") from error
    try:
        _handshake(pem, key_pem)
    except (ssl.SSLError, OSError) as error:
        raise TlsFilesError(f"{certificate} and {key} do not serve a TLS connection: {error}") from error
    return pem, key_pem


def _links(certificate: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise TlsFilesError(f"{certificate}: no PEM certificate with its chain; it may be half-written") from error


def _judge(
    certificate: Path, key: Path, private: PrivateKeyTypes, links: list[x509.Certificate], now: datetime
) -> None:
    if links[0].public_key() != private.public_key():
        raise TlsFilesError(f"{key} is not the key of {certificate}: the set may be half-written")
    for link in links:
        name = link.subject.rfc4514_string() or "its certificate"
        if now >= link.not_valid_after_utc:
            raise TlsFilesError(f"{certificate}: {name} ended on {link.not_valid_after_utc:%Y-%m-%d %H:%M}")
        if now < link.not_valid_before_utc - _CLOCKS_DIFFER:
            raise TlsFilesError(
                f"{certificate}: {name} is not in force before {link.not_valid_before_utc:%Y-%m-%d %H:%M}; "
                f"this host's clock says {now:%Y-%m-%d %H:%M}"
            )
    for link, above in itertools.pairwise(links):
        try:
            link.verify_directly_issued_by(above)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise TlsFilesError(
                f"{certificate}: {link.subject.rfc4514_string()} is not signed by the certificate after it"
            ) from error


def _handshake(pem: bytes, key_pem: bytes) -> None:
    """Let the set serve a client that trusts its last link. Raises ssl.SSLError."""
    serving = _loaded(pem, key_pem)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    last = x509.load_pem_x509_certificates(pem)[-1]
    asking.load_verify_locations(cadata=last.public_bytes(Encoding.PEM).decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [serving.wrap_bio(up, down, server_side=True), asking.wrap_bio(down, up)]
    for _ in range(10):
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    if ends:
        raise ssl.SSLError("the handshake does not come to its end")


def _loaded(pem: bytes, key_pem: bytes) -> ssl.SSLContext:
    """Return the context of a set, from memory: OpenSSL takes names of files only, and they may have changed since they were tested.

    Raises TlsFilesError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                stream.write(key_pem + b"\n" + pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    except (ssl.SSLError, OSError) as error:
        raise TlsFilesError(f"OpenSSL does not take the set: {error}") from error
    return context


def _one(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
