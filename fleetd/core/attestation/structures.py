"""TPMT_PUBLIC: a key as the TPM describes it, its Name, and a bounded reader for all TPM structures.

Sources: TPM 2.0 Part 1, 16 (Names); Part 2, 8.3 (TPMA_OBJECT), 11.2.4 (TPM2B_ECC_POINT), 12.2.4 (TPMT_PUBLIC).
Parsing trusts no length, rejects trailing bytes and raises nothing but MalformedStructure.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Final, NewType

from cryptography.hazmat.primitives.asymmetric import ec, rsa

Name = NewType("Name", bytes)
"""nameAlg (2 bytes, big-endian) and the digest of the TPMT_PUBLIC."""

MAX_PUBLIC: Final = 2048
"""No TPMT_PUBLIC of a real key is near this; longer ones are refused unread."""


class MalformedStructure(ValueError):  # noqa: N818 - a verdict on the bytes, not a fault of the program
    """The bytes are not the structure that they should be."""


class Algorithm(IntEnum):
    """TPM_ALG_ID values that are understood (Part 2, 6.3)."""

    RSA = 0x0001
    SHA1 = 0x0004
    HMAC = 0x0005
    AES = 0x0006
    KEYEDHASH = 0x0008
    SHA256 = 0x000B
    SHA384 = 0x000C
    SHA512 = 0x000D
    NULL = 0x0010
    SM3_256 = 0x0012
    RSASSA = 0x0014
    RSAES = 0x0015
    RSAPSS = 0x0016
    OAEP = 0x0017
    ECDSA = 0x0018
    ECDH = 0x0019
    ECDAA = 0x001A
    SM2 = 0x001B
    ECSCHNORR = 0x001C
    ECMQV = 0x001D
    ECC = 0x0023
    CFB = 0x0043


HASHES: Final = {
    Algorithm.SHA1: "sha1",
    Algorithm.SHA256: "sha256",
    Algorithm.SHA384: "sha384",
    Algorithm.SHA512: "sha512",
}
"""hashlib's names."""

_NAME_HASHES: Final = frozenset({Algorithm.SHA256, Algorithm.SHA384, Algorithm.SHA512})


class Curve(IntEnum):
    """TPM_ECC_CURVE values that are understood (Part 2, 6.4)."""

    P256 = 0x0003
    P384 = 0x0004
    P521 = 0x0005

    @property
    def size(self) -> int:
        """Bytes of one coordinate."""
        return {Curve.P256: 32, Curve.P384: 48, Curve.P521: 66}[self]

    def cryptography(self) -> ec.EllipticCurve:
        """Return the curve in cryptography's terms."""
        curves: dict[Curve, ec.EllipticCurve] = {
            Curve.P256: ec.SECP256R1(),
            Curve.P384: ec.SECP384R1(),
            Curve.P521: ec.SECP521R1(),
        }
        return curves[self]


class Attribute(IntFlag):
    """TPMA_OBJECT bits (Part 2, 8.3)."""

    FIXED_TPM = 1 << 1
    ST_CLEAR = 1 << 2
    FIXED_PARENT = 1 << 4
    SENSITIVE_DATA_ORIGIN = 1 << 5
    USER_WITH_AUTH = 1 << 6
    ADMIN_WITH_POLICY = 1 << 7
    FIRMWARE_LIMITED = 1 << 8
    SVN_LIMITED = 1 << 9
    NO_DA = 1 << 10
    ENCRYPTED_DUPLICATION = 1 << 11
    RESTRICTED = 1 << 16
    DECRYPT = 1 << 17
    SIGN = 1 << 18
    X509_SIGN = 1 << 19


class Reader:
    """Reads big-endian fields from bytes and never past their end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def u16(self) -> int:
        """Return the next 2 bytes as a number."""
        return int.from_bytes(self.take(2))

    def u32(self) -> int:
        """Return the next 4 bytes as a number."""
        return int.from_bytes(self.take(4))

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes. Raises MalformedStructure when fewer are left."""
        end = self._at + count
        if end > len(self._data):
            raise MalformedStructure(f"{count} bytes wanted at {self._at}, {len(self._data) - self._at} left")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def sized(self) -> bytes:
        """Return the content of a TPM2B: a 2-byte size, then as many bytes."""
        return self.take(self.u16())

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self._data) - self._at

    def end(self) -> None:
        """Make sure that nothing is left. Raises MalformedStructure."""
        if self.left:
            raise MalformedStructure(f"{self.left} bytes after the structure")


@dataclass(frozen=True, slots=True)
class SymmetricParameters:
    """TPMT_SYM_DEF_OBJECT of a restricted decryption key."""

    algorithm: int
    key_bits: int
    mode: int


@dataclass(frozen=True, slots=True)
class Scheme:
    """TPMT_RSA_SCHEME or TPMT_ECC_SCHEME; `hash_alg` is 0 where the scheme has none."""

    algorithm: int
    hash_alg: int = 0


@dataclass(frozen=True, slots=True)
class RsaParameters:
    """TPMS_RSA_PARMS; `exponent` as on the wire, where 0 means 65537."""

    symmetric: SymmetricParameters | None
    scheme: Scheme
    key_bits: int
    exponent: int


@dataclass(frozen=True, slots=True)
class EccParameters:
    """TPMS_ECC_PARMS; the curve as on the wire."""

    symmetric: SymmetricParameters | None
    scheme: Scheme
    curve: int
    kdf: Scheme


@dataclass(frozen=True, slots=True)
class EccPoint:
    """TPMS_ECC_POINT; big-endian coordinates as on the wire."""

    x: bytes
    y: bytes


@dataclass(frozen=True)
class PublicArea:
    """TPMT_PUBLIC of an RSA or ECC key; `raw` is what was parsed, and what the Name is taken over."""

    type: Algorithm
    name_alg: Algorithm
    attributes: Attribute
    auth_policy: bytes
    parameters: RsaParameters | EccParameters
    unique: bytes | EccPoint
    """The RSA modulus, big-endian, or the ECC point."""
    raw: bytes

    @cached_property
    def _name(self) -> Name:
        return Name(self.name_alg.to_bytes(2) + hashlib.new(HASHES[self.name_alg], self.raw).digest())

    def name(self) -> Name:
        """Return the Name: nameAlg and the digest of the public area (Part 1, 16)."""
        return self._name

    @cached_property
    def _public_key(self) -> rsa.RSAPublicKey | ec.EllipticCurvePublicKey:
        if isinstance(self.parameters, RsaParameters):
            assert isinstance(self.unique, bytes)
            return _rsa_key(self.parameters, self.unique)
        assert isinstance(self.unique, EccPoint)
        return _ecc_key(self.parameters, self.unique)

    def to_public_key(self) -> rsa.RSAPublicKey | ec.EllipticCurvePublicKey:
        """Return the key itself.

        Raises MalformedStructure when the modulus is not of the stated size, even or the exponent not 65537, or when the
        point is not on a known curve.
        """
        return self._public_key


def parse_public(raw: bytes) -> PublicArea:
    """Parse a TPMT_PUBLIC (no size prefix) of an RSA or ECC key. Raises MalformedStructure."""
    if len(raw) > MAX_PUBLIC:
        raise MalformedStructure(f"a public area of {len(raw)} bytes")
    reader = Reader(raw)
    kind = _algorithm(reader.u16())
    name_alg = _algorithm(reader.u16())
    if name_alg not in _NAME_HASHES:
        raise MalformedStructure(f"name algorithm {name_alg:#06x} is not SHA-256, SHA-384 or SHA-512")
    attributes = Attribute(reader.u32())
    policy = reader.sized()
    parameters: RsaParameters | EccParameters
    unique: bytes | EccPoint
    if kind is Algorithm.RSA:
        parameters = RsaParameters(_symmetric(reader), _scheme(reader), reader.u16(), reader.u32())
        unique = reader.sized()
    elif kind is Algorithm.ECC:
        parameters = EccParameters(_symmetric(reader), _scheme(reader), reader.u16(), _scheme(reader))
        unique = EccPoint(reader.sized(), reader.sized())
    else:
        raise MalformedStructure(f"key type {kind:#06x} is neither RSA nor ECC")
    reader.end()
    return PublicArea(kind, name_alg, attributes, policy, parameters, unique, bytes(raw))


def marshal_public(
    kind: Algorithm,
    attributes: Attribute,
    parameters: RsaParameters | EccParameters,
    unique: bytes | EccPoint,
    *,
    name_alg: Algorithm = Algorithm.SHA256,
    auth_policy: bytes = b"",
) -> bytes:
    """Return the TPMT_PUBLIC of these fields, as `parse_public` reads it."""
    head = kind.to_bytes(2) + name_alg.to_bytes(2) + attributes.to_bytes(4) + _sized(auth_policy)
    body = _marshal_symmetric(parameters.symmetric) + _marshal_scheme(parameters.scheme)
    if isinstance(parameters, RsaParameters):
        assert isinstance(unique, bytes)
        return head + body + parameters.key_bits.to_bytes(2) + parameters.exponent.to_bytes(4) + _sized(unique)
    assert isinstance(unique, EccPoint)
    body += parameters.curve.to_bytes(2) + _marshal_scheme(parameters.kdf)
    return head + body + _sized(unique.x) + _sized(unique.y)


def _algorithm(value: int) -> Algorithm:
    try:
        return Algorithm(value)
    except ValueError:
        raise MalformedStructure(f"unknown algorithm {value:#06x}") from None


def _symmetric(reader: Reader) -> SymmetricParameters | None:
    algorithm = reader.u16()
    if algorithm == Algorithm.NULL:
        return None
    if algorithm != Algorithm.AES:
        raise MalformedStructure(f"symmetric algorithm {algorithm:#06x} is not AES")
    return SymmetricParameters(algorithm, reader.u16(), reader.u16())


_WITH_HASH = frozenset(
    {Algorithm.RSASSA, Algorithm.RSAPSS, Algorithm.OAEP, Algorithm.ECDSA, Algorithm.ECDH, Algorithm.SM2}
)


def _scheme(reader: Reader) -> Scheme:
    algorithm = reader.u16()
    if algorithm in {Algorithm.NULL, Algorithm.RSAES}:
        return Scheme(algorithm)
    if algorithm in _WITH_HASH:
        return Scheme(algorithm, reader.u16())
    raise MalformedStructure(f"scheme {algorithm:#06x} is not understood")


def _marshal_symmetric(symmetric: SymmetricParameters | None) -> bytes:
    if symmetric is None:
        return Algorithm.NULL.to_bytes(2)
    return symmetric.algorithm.to_bytes(2) + symmetric.key_bits.to_bytes(2) + symmetric.mode.to_bytes(2)


def _marshal_scheme(scheme: Scheme) -> bytes:
    head = scheme.algorithm.to_bytes(2)
    return head + scheme.hash_alg.to_bytes(2) if scheme.algorithm in _WITH_HASH else head


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data


def _rsa_key(parameters: RsaParameters, modulus: bytes) -> rsa.RSAPublicKey:
    number = int.from_bytes(modulus)
    exponent = parameters.exponent or 65537
    if exponent != 65537:
        raise MalformedStructure(f"RSA exponent {exponent} is not 65537")
    if number.bit_length() != parameters.key_bits or len(modulus) * 8 != parameters.key_bits:
        raise MalformedStructure(f"a modulus of {number.bit_length()} bits in a key of {parameters.key_bits}")
    if number % 2 == 0:
        raise MalformedStructure("an even RSA modulus")
    if not 256 <= len(modulus) <= 512:
        raise MalformedStructure(f"RSA-{parameters.key_bits} is not between 2048 and 4096 bits")
    try:
        return rsa.RSAPublicNumbers(exponent, number).public_key()
    except ValueError as error:
        raise MalformedStructure(f"not an RSA key: {error}") from error


def _ecc_key(parameters: EccParameters, point: EccPoint) -> ec.EllipticCurvePublicKey:
    try:
        curve = Curve(parameters.curve)
    except ValueError:
        raise MalformedStructure(f"curve {parameters.curve:#06x} is not P-256, P-384 or P-521") from None
    if len(point.x) > curve.size or len(point.y) > curve.size:
        raise MalformedStructure("a coordinate longer than the curve's field")
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(point.x), int.from_bytes(point.y), curve.cryptography())
    try:
        return numbers.public_key()
    except ValueError:
        raise MalformedStructure("the point is not on its curve") from None
