"""Keys of the issuing CAs in a PKCS#11 token: they are made there, sign there, and cannot be read out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_der_public_key

from fleetd.ca.signer import KeyFileError, Signer
from fleetd.secret_files import secret_text

if TYPE_CHECKING:
    import pkcs11

_ONE_AT_A_TIME: Final = Lock()
"""A login holds for all sessions of the process, and the last one that closes ends it."""


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The keys of one token, by their label."""

    module: Path
    """The token's PKCS#11 library."""
    label: str
    pin_file: Path

    def exists(self, name: str) -> bool:
        """Tell whether the token holds a private key of this label. Raises KeyFileError, SecretFileError."""
        with self._session() as session:
            return _found(session, name, private=True) is not None

    def make(self, name: str) -> None:
        """Make a P-256 key pair in the token, never to leave it. Raises KeyFileError, SecretFileError."""
        import pkcs11
        from pkcs11.util.ec import encode_named_curve_parameters

        with self._session(writes=True) as session:
            if _found(session, name, private=True) is not None:
                raise KeyFileError(f"{self._said} holds a key {name} already: keys are never overwritten")
            parameters = session.create_domain_parameters(
                pkcs11.KeyType.EC,
                {pkcs11.Attribute.EC_PARAMS: encode_named_curve_parameters("secp256r1")},
                local=True,
            )
            protected = {pkcs11.Attribute.SENSITIVE: True, pkcs11.Attribute.EXTRACTABLE: False}
            parameters.generate_keypair(store=True, label=name, private_template=protected)

    def signer(self, name: str) -> Signer:
        """Return what signs in the token."""
        return TokenSigner(self, name)

    def remove(self, name: str) -> None:
        """Destroy both halves. Raises KeyFileError, SecretFileError."""
        with self._session(writes=True) as session:
            for private in (True, False):
                key = _found(session, name, private=private)
                if key is not None:
                    key.destroy()

    def public_key(self, name: str) -> ec.EllipticCurvePublicKey:
        """Return the public half. Raises KeyFileError, SecretFileError."""
        from pkcs11.util.ec import encode_ec_public_key

        with self._session() as session:
            key = _found(session, name, private=False)
            if key is None:
                raise KeyFileError(f"{self._said} holds no key {name}; is it the right token?")
            loaded = load_der_public_key(encode_ec_public_key(key))
        if not isinstance(loaded, ec.EllipticCurvePublicKey):
            raise KeyFileError(f"{self._said}: {name} is not an EC key")
        return loaded

    def sign(self, name: str, digest: bytes) -> bytes:
        """Sign a digest; return r and s one after the other. Raises KeyFileError, SecretFileError."""
        import pkcs11

        with self._session() as session:
            key = _found(session, name, private=True)
            if key is None:
                raise KeyFileError(f"{self._said} holds no key {name}; is it the right token?")
            return bytes(key.sign(digest, mechanism=pkcs11.Mechanism.ECDSA))

    @property
    def _said(self) -> str:
        return f"the token {self.label!r} of {self.module}"

    @contextmanager
    def _session(self, *, writes: bool = False) -> "Iterator[pkcs11.Session]":
        try:
            import pkcs11
        except ImportError as error:
            raise KeyFileError(
                "ca.pkcs11 is configured and python-pkcs11 is not installed: pip install 'netbox-fleet[service,pkcs11]'"
            ) from error
        pin = secret_text(self.pin_file)
        with _ONE_AT_A_TIME:
            try:
                token = pkcs11.lib(str(self.module)).get_token(token_label=self.label)
                with token.open(rw=writes, user_pin=pin) as session:
                    yield session
            except (pkcs11.PKCS11Error, RuntimeError) as error:
                words = str(error) or type(error).__name__
                raise KeyFileError(f"{self._said} cannot be used: {words}") from error


class TokenSigner:
    """A key in a token."""

    def __init__(self, keys: TokenKeys, name: str) -> None:
        self._keys, self._name = keys, name

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """Return what behaves as the key and signs in the token. Raises KeyFileError, SecretFileError."""
        return TokenKey(self._keys, self._name)


class TokenKey(ec.EllipticCurvePrivateKey):
    """A private key that delegates `sign`; nothing else of it can be had."""

    def __init__(self, keys: TokenKeys, name: str) -> None:
        self._keys, self._name = keys, name
        self._public = keys.public_key(name)

    def sign(self, data: Any, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        """Return an ECDSA signature, DER. Raises KeyFileError, SecretFileError."""
        algorithm = signature_algorithm.algorithm
        if isinstance(algorithm, utils.Prehashed):
            digest = bytes(data)
        else:
            hashing = hashes.Hash(algorithm)
            hashing.update(data)
            digest = hashing.finalize()
        # ECDSA takes the leftmost bits of a digest that is longer than the curve (FIPS 186-5, 6.4.1).
        raw = self._keys.sign(self._name, digest[: (self.key_size + 7) // 8])
        half = len(raw) // 2
        return utils.encode_dss_signature(int.from_bytes(raw[:half]), int.from_bytes(raw[half:]))

    def public_key(self) -> ec.EllipticCurvePublicKey:
        """Return the public half."""
        return self._public

    @property
    def curve(self) -> ec.EllipticCurve:
        """The curve."""
        return self._public.curve

    @property
    def key_size(self) -> int:
        """Bits of the curve."""
        return self._public.key_size

    def exchange(self, algorithm: ec.ECDH, peer_public_key: ec.EllipticCurvePublicKey) -> NoReturn:
        """Refuse."""
        raise NotImplementedError("a CA's key signs and does nothing else")

    def private_numbers(self) -> NoReturn:
        """Refuse."""
        raise NotImplementedError("the key does not leave its token")

    def private_bytes(self, encoding: Any, format: Any, encryption_algorithm: Any) -> NoReturn:  # noqa: A002 -- the interface's name
        """Refuse."""
        raise NotImplementedError("the key does not leave its token")

    def __copy__(self) -> "TokenKey":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "TokenKey":
        return self


def _found(session: "pkcs11.Session", name: str, *, private: bool) -> Any:
    import pkcs11

    kind = pkcs11.ObjectClass.PRIVATE_KEY if private else pkcs11.ObjectClass.PUBLIC_KEY
    try:
        return session.get_key(object_class=kind, label=name)
    except pkcs11.NoSuchKey:
        return None
