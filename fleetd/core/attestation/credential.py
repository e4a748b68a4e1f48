"""MakeCredential in software: a secret that only the TPM which holds the EK and a named key can recover.

Source: TPM 2.0 Part 1, 24 (credential protection), 11.4.10 (KDFa, KDFe), annexes B.10.4 and C.6.1 (secret sharing).
"""

import hmac
from dataclasses import dataclass
from hashlib import new as new_hash
from typing import Final, Protocol

from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from fleetd.core.attestation.structures import HASHES, Algorithm, Curve, MalformedStructure, Name, PublicArea

SECRET_SIZE: Final = 32
"""Bytes of an activation secret: the most that every TPM takes (some emulators take more)."""


class Randomness(Protocol):
    """Where the seed and the ephemeral key come from."""

    def bytes(self, count: int) -> bytes:
        """Return `count` unpredictable bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Credential:
    """What TPM2_ActivateCredential takes; both with their 2-byte size prefix."""

    blob: bytes
    """TPM2B_ID_OBJECT: integrity HMAC and encrypted secret."""
    secret: bytes
    """TPM2B_ENCRYPTED_SECRET: the seed, for the EK only."""


def make_credential(ek: PublicArea, name: Name, secret: bytes, random: Randomness) -> Credential:
    """Wrap a 32-byte secret for the TPM that holds `ek` and the object called `name`.

    Raises MalformedStructure when the EK is no storage key that can protect a credential, ValueError for a secret of
    another size.
    """
    if len(secret) != SECRET_SIZE:
        raise ValueError(f"an activation secret has {SECRET_SIZE} bytes, not {len(secret)}")
    symmetric = ek.parameters.symmetric
    if symmetric is None or symmetric.mode != Algorithm.CFB:
        raise MalformedStructure("the EK protects nothing with AES-CFB")
    if symmetric.key_bits not in {128, 192, 256}:
        raise MalformedStructure(f"AES-{symmetric.key_bits} does not exist")
    seed, shared = _share_seed(ek, random)
    hash_name = HASHES[ek.name_alg]
    digest_bits = new_hash(hash_name).digest_size * 8
    encryptor = Cipher(
        AES(kdfa(hash_name, seed, b"STORAGE", name, b"", symmetric.key_bits)), CFB(b"\0" * 16)
    ).encryptor()
    hidden = encryptor.update(_sized(secret)) + encryptor.finalize()
    key = kdfa(hash_name, seed, b"INTEGRITY", b"", b"", digest_bits)
    integrity = hmac.digest(key, hidden + name, hash_name)
    return Credential(_sized(_sized(integrity) + hidden), _sized(shared))


def kdfa(hash_name: str, key: bytes, label: bytes, context_u: bytes, context_v: bytes, bits: int) -> bytes:
    """Return `bits` / 8 bytes of KDFa, the counter-mode KDF of Part 1, 11.4.10.2."""
    tail = label + b"\0" + context_u + context_v + bits.to_bytes(4)
    out = b""
    for counter in range(1, -(-bits // (new_hash(hash_name).digest_size * 8)) + 1):
        out += hmac.digest(key, counter.to_bytes(4) + tail, hash_name)
    return out[: bits // 8]


def kdfe(hash_name: str, z: bytes, label: bytes, party_u: bytes, party_v: bytes, bits: int) -> bytes:
    """Return `bits` / 8 bytes of KDFe, the KDF over an ECDH secret of Part 1, 11.4.10.3."""
    out = b""
    for counter in range(1, -(-bits // (new_hash(hash_name).digest_size * 8)) + 1):
        out += new_hash(hash_name, counter.to_bytes(4) + z + label + b"\0" + party_u + party_v).digest()
    return out[: bits // 8]


def _share_seed(ek: PublicArea, random: Randomness) -> tuple[bytes, bytes]:
    """Return a fresh seed, and the same seed in the form that only the EK opens."""
    key = ek.to_public_key()
    hash_name = HASHES[ek.name_alg]
    size = new_hash(hash_name).digest_size
    if isinstance(key, rsa.RSAPublicKey):
        seed = random.bytes(size)
        algorithm = _HASH_CLASSES[ek.name_alg]()
        return seed, key.encrypt(seed, padding.OAEP(padding.MGF1(algorithm), algorithm, b"IDENTITY\0"))
    curve = next(known for known in Curve if known.cryptography().name == key.curve.name)
    ephemeral = ec.derive_private_key(_scalar(curve, random), curve.cryptography())
    theirs, ours = key.public_numbers(), ephemeral.public_key().public_numbers()
    z = ephemeral.exchange(ec.ECDH(), key)
    x, y = ours.x.to_bytes(curve.size), ours.y.to_bytes(curve.size)
    seed = kdfe(hash_name, z, b"IDENTITY", x, theirs.x.to_bytes(curve.size), size * 8)
    return seed, _sized(x) + _sized(y)


_HASH_CLASSES: Final[dict[Algorithm, type[hashes.SHA256 | hashes.SHA384 | hashes.SHA512]]] = {
    Algorithm.SHA256: hashes.SHA256,
    Algorithm.SHA384: hashes.SHA384,
    Algorithm.SHA512: hashes.SHA512,
}

_ORDERS: Final = {
    Curve.P256: 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    Curve.P384: 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
    Curve.P521: int.from_bytes(
        b"\x01" + b"\xff" * 32 + bytes.fromhex("fa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409")
    ),
}
"""Group orders (SEC 2, 2.4.2, 2.5.1 and 2.6.1)."""


def _scalar(curve: Curve, random: Randomness) -> int:
    """Return a private scalar with 64 bits more than the order, reduced: FIPS 186-5, A.2.1."""
    return int.from_bytes(random.bytes(curve.size + 8)) % (_ORDERS[curve] - 1) + 1


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data
