"""Public areas that the client asks a TPM for, as TPMT_PUBLIC without size prefix (TPM 2.0 Library, part 2).

Endorsement keys: TCG EK Credential Profile for TPM 2.0, annex B; the storage root key is H-2 of the same kind of
table, as SPIRE makes it; LAK and LDevID: docs/reference/machine-api.md.
"""

import struct
from dataclasses import dataclass
from enum import Enum

RSA, ECC = 0x0001, 0x0023
SHA256, SHA384, SHA512 = 0x000B, 0x000C, 0x000D
NULL, AES, CFB = 0x0010, 0x0006, 0x0043
RSASSA, ECDSA = 0x0014, 0x0018
P256, P384, P521 = 0x0003, 0x0004, 0x0005

# Attribute bits of an object, TPMA_OBJECT (part 2, section 8.3).
EK_LOW = 0x000300B2
"""fixedTPM fixedParent sensitiveDataOrigin adminWithPolicy restricted decrypt."""
EK_HIGH = 0x000300F2
"""The same and userWithAuth: a high-range EK is used with its empty password."""
LAK = 0x00050472
"""fixedTPM fixedParent sensitiveDataOrigin userWithAuth noDA restricted sign; adminWithPolicy clear: Certify and
ActivateCredential need the ADMIN role, which a password then gives."""
LDEVID = 0x00040472
SRK = 0x00030472

POLICY_A = bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
"""PolicySecret(endorsement), SHA-256."""
POLICY_B = {
    SHA256: bytes.fromhex("ca3d0a99a2b93906f7a3342414efcfb3a385d44cd1fd459089d19b5071c0b7a0"),
    SHA384: bytes.fromhex(
        "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12"
    ),
    SHA512: bytes.fromhex(
        "b8221ca69e8550a4914de3faa6a18c072cc01208073a928d5d66d59ef79e49a4"
        "29c41a6b269571d57edb25fbdb1838425608b413cd616a5f6db5b6071af99bea"
    ),
}


class LakAlgorithm(Enum):
    """Kinds of LAK, in the order in which the client tries them."""

    P256 = "P-256"
    P384 = "P-384"
    RSA2048 = "RSA-2048"

    @classmethod
    def named(cls, text: str) -> "LakAlgorithm | None":
        """Return the algorithm of a name in any of the usual spellings; None when it is not known."""
        bare = "".join(letter for letter in text.lower() if letter.isalnum())
        for algorithm in cls:
            if bare.endswith(algorithm.value.lower().replace("-", "")):
                return algorithm
        return None


@dataclass(frozen=True, slots=True)
class EkKind:
    """One endorsement key of the profile: where its parts lie in NV, and its default template."""

    label: str
    certificate_index: int
    public: bytes
    nonce_index: int | None = None
    template_index: int | None = None
    persistent: int | None = None

    @property
    def by_policy(self) -> bool:
        """Whether its use is authorized by PolicySecret rather than by its empty password."""
        return int.from_bytes(self.public[4:8], "big") & 0x40 == 0


def sized(value: bytes) -> bytes:
    """Return a TPM2B: a 2-byte big-endian size, then the value."""
    return struct.pack(">H", len(value)) + value


def rsa_decrypt(name_alg: int, attributes: int, policy: bytes, bits: int, aes: int, unique: bytes) -> bytes:
    """Return an RSA storage key's public area."""
    head = struct.pack(">HHI", RSA, name_alg, attributes) + sized(policy)
    return head + struct.pack(">HHHHHI", AES, aes, CFB, NULL, bits, 0) + sized(unique)


def ecc_decrypt(name_alg: int, attributes: int, policy: bytes, curve: int, aes: int, unique: bytes) -> bytes:
    """Return an ECC storage key's public area; `unique` stands for both coordinates."""
    head = struct.pack(">HHI", ECC, name_alg, attributes) + sized(policy)
    return head + struct.pack(">HHHHHH", AES, aes, CFB, NULL, curve, NULL) + sized(unique) * 2


def lak_public(algorithm: LakAlgorithm, unique: bytes) -> bytes:
    """Return the LAK's template for 32 bytes of `unique` (ECC: x, with y empty)."""
    if algorithm is LakAlgorithm.RSA2048:
        head = struct.pack(">HHI", RSA, SHA256, LAK) + sized(b"")
        return head + struct.pack(">HHHHI", NULL, RSASSA, SHA256, 2048, 0) + sized(unique)
    curve, scheme_hash = (P256, SHA256) if algorithm is LakAlgorithm.P256 else (P384, SHA384)
    return _ecc_signer(LAK, curve, scheme_hash) + sized(unique) + sized(b"")


def ldevid_public(curve: int) -> bytes:
    """Return the LDevID's template on a curve."""
    scheme_hash = SHA256 if curve == P256 else SHA384
    return _ecc_signer(LDEVID, curve, scheme_hash) + sized(b"") * 2


def srk_public(curve: int) -> bytes:
    """Return the template of the ECC storage root key in the owner hierarchy."""
    return ecc_decrypt(SHA256, SRK, b"", curve, 128, b"")


def _ecc_signer(attributes: int, curve: int, scheme_hash: int) -> bytes:
    head = struct.pack(">HHI", ECC, SHA256, attributes) + sized(b"")
    return head + struct.pack(">HHHHH", NULL, ECDSA, scheme_hash, curve, NULL)


def _high(label: str, index: int, public: bytes) -> EkKind:
    return EkKind(label, index, public)


L1 = EkKind(
    "L-1",
    0x01C00002,
    rsa_decrypt(SHA256, EK_LOW, POLICY_A, 2048, 128, bytes(256)),
    nonce_index=0x01C00003,
    template_index=0x01C00004,
    persistent=0x81010001,
)
L2 = EkKind(
    "L-2",
    0x01C0000A,
    ecc_decrypt(SHA256, EK_LOW, POLICY_A, P256, 128, bytes(32)),
    nonce_index=0x01C0000B,
    template_index=0x01C0000C,
    persistent=0x81010002,
)
HIGH_RANGE = (
    _high("H-1", 0x01C00012, rsa_decrypt(SHA256, EK_HIGH, POLICY_B[SHA256], 2048, 128, b"")),
    _high("H-2", 0x01C00014, ecc_decrypt(SHA256, EK_HIGH, POLICY_B[SHA256], P256, 128, b"")),
    _high("H-3", 0x01C00016, ecc_decrypt(SHA384, EK_HIGH, POLICY_B[SHA384], P384, 256, b"")),
    _high("H-4", 0x01C00018, ecc_decrypt(SHA512, EK_HIGH, POLICY_B[SHA512], P521, 256, b"")),
    _high("H-6", 0x01C0001C, rsa_decrypt(SHA384, EK_HIGH, POLICY_B[SHA384], 3072, 256, b"")),
    _high("H-7", 0x01C0001E, rsa_decrypt(SHA384, EK_HIGH, POLICY_B[SHA384], 4096, 256, b"")),
)
CHAIN_INDEXES = range(0x01C00100, 0x01C00200)
"""Where a manufacturer may leave the CA certificates above the EK's (EK Credential Profile, section 2.2.1.5.2)."""
