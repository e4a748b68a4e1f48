"""What a TPM hands out, as bytes."""

from dataclasses import dataclass
from hashlib import new

from fleet_machine.tpm.templates import SHA256, SHA384, SHA512

HASH_NAMES = {SHA256: "sha256", SHA384: "sha384", SHA512: "sha512"}


@dataclass(frozen=True, slots=True)
class EndorsementKey:
    """An EK of this TPM."""

    label: str
    public: bytes
    """TPMT_PUBLIC."""
    certificate: bytes | None
    """As it lies in NV, with the maker's prefix or padding."""

    @property
    def name(self) -> bytes:
        """The Name: nameAlg, then the hash of the public area."""
        return name_of(self.public)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key under the storage root key; only this TPM can load it."""

    public: bytes
    """TPMT_PUBLIC."""
    private: bytes
    """TPM2B_PRIVATE without its size prefix."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A TPMS_ATTEST and the TPMT_SIGNATURE over it."""

    attest: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Quoted:
    """A quote and the PCR values that it covers."""

    signed: Signed
    bank: str
    pcrs: dict[int, bytes]


def name_of(public: bytes) -> bytes:
    """Return the Name of a public area (TPM 2.0 Library, part 1, section 16)."""
    algorithm = int.from_bytes(public[2:4], "big")
    return public[2:4] + new(HASH_NAMES[algorithm], public).digest()
