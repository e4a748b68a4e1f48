"""The fingerprint of RSA keys of the broken Infineon generator (CVE-2017-15361).

Source: Nemec, Sys, Svenda, Klinec, Matyas, "The Return of Coppersmith's Attack" (2017), 3: their primes are
k * M + (65537^a mod M), so that the modulus is a power of 65537 modulo every small prime that divides M.
"""

from typing import Final

_PRIMES: Final = (
    11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103, 107, 109, 127, 151, 157,
)  # fmt: skip
"""Primes where the powers of 65537 leave residues out; a random key passes all of them once in 2^27."""


def _powers(prime: int) -> frozenset[int]:
    seen, value = {1}, 65537 % prime
    while value not in seen:
        seen.add(value)
        value = value * 65537 % prime
    return frozenset(seen)


_RESIDUES: Final = tuple((prime, _powers(prime)) for prime in _PRIMES)


def has_roca_fingerprint(modulus: int) -> bool:
    """Tell whether an RSA modulus bears the fingerprint."""
    return all(modulus % prime in residues for prime, residues in _RESIDUES)
