"""PCR banks: their names, algorithm numbers, digest sizes and hash functions.

Sources: TCG Algorithm Registry 1.34 (numbers), TPM 2.0 Part 1 "Platform Configuration Registers" (reset values).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PCR_COUNT = 24


class Bank(StrEnum):
    """A PCR bank, named as classes.json and the machine API name it."""

    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA384 = "sha384"
    SHA512 = "sha512"
    SM3_256 = "sm3_256"
    SHA3_256 = "sha3_256"
    SHA3_384 = "sha3_384"
    SHA3_512 = "sha3_512"


def _sm3(data: bytes) -> Any:
    return hashlib.new("sm3", data)


HASH: Mapping[Bank, Callable[[bytes], Any]] = {
    Bank.SHA1: hashlib.sha1,
    Bank.SHA256: hashlib.sha256,
    Bank.SHA384: hashlib.sha384,
    Bank.SHA512: hashlib.sha512,
    Bank.SM3_256: _sm3,
    Bank.SHA3_256: hashlib.sha3_256,
    Bank.SHA3_384: hashlib.sha3_384,
    Bank.SHA3_512: hashlib.sha3_512,
}
"""The hash function of each bank; SM3 needs an OpenSSL that has it and raises ValueError otherwise."""

SIZE: Mapping[Bank, int] = {
    Bank.SHA1: 20,
    Bank.SHA256: 32,
    Bank.SHA384: 48,
    Bank.SHA512: 64,
    Bank.SM3_256: 32,
    Bank.SHA3_256: 32,
    Bank.SHA3_384: 48,
    Bank.SHA3_512: 64,
}
"""Digest size in bytes."""

ALGORITHM: Mapping[Bank, int] = {
    Bank.SHA1: 0x0004,
    Bank.SHA256: 0x000B,
    Bank.SHA384: 0x000C,
    Bank.SHA512: 0x000D,
    Bank.SM3_256: 0x0012,
    Bank.SHA3_256: 0x0027,
    Bank.SHA3_384: 0x0028,
    Bank.SHA3_512: 0x0029,
}
"""TPM_ALG_ID of each bank."""

BANK_OF: Mapping[int, Bank] = {number: bank for bank, number in ALGORITHM.items()}
"""The bank of each TPM_ALG_ID."""

STRENGTH: tuple[Bank, ...] = (
    Bank.SHA512,
    Bank.SHA3_512,
    Bank.SHA384,
    Bank.SHA3_384,
    Bank.SHA256,
    Bank.SHA3_256,
    Bank.SM3_256,
    Bank.SHA1,
)
"""Banks from the strongest to the weakest."""

type PcrValues = Mapping[Bank, Mapping[int, bytes]]
"""Values of PCRs by bank and index."""


@dataclass(frozen=True, slots=True)
class PcrSelection:
    """Which PCRs of which banks, in the order in which a TPM hashes them (indexes ascending within a bank)."""

    banks: tuple[tuple[Bank, tuple[int, ...]], ...]

    @classmethod
    def of(cls, bank: Bank, *indexes: int) -> "PcrSelection":
        """Select these PCRs of one bank."""
        return cls(((bank, tuple(sorted(set(indexes)))),))

    def same_as(self, other: "PcrSelection") -> bool:
        """Tell whether both select the same PCRs of the same banks, in whatever order the banks stand."""
        return self.banks == other.banks or sorted(self.banks) == sorted(other.banks)

    def __str__(self) -> str:
        return "+".join(f"{bank}:{','.join(map(str, indexes)) or 'none'}" for bank, indexes in self.banks) or "none"


def reset_value(bank: Bank, index: int) -> bytes:
    """Return what a PCR holds after a power cycle without a dynamic launch: ones for PCRs 17 to 22, else zeros."""
    return (b"\xff" if 17 <= index <= 22 else b"\x00") * SIZE[bank]
