"""Reading places of a disk back, as evidence of what became of it."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

PLACES = 1024
PLACE_SIZE = 4096
ENDS = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A range of a disk, in bytes."""

    offset: int
    length: int


def places_of(size: int, rng: random.Random) -> tuple[Place, ...]:
    """Return where to read: the first and last MiB in full, and one random place in each of 1,024 equal parts.

    The places are different ones. A disk too small for that is read whole.
    """
    if size <= 2 * ENDS + 2 * PLACES * PLACE_SIZE:
        return tuple(Place(at, min(PLACE_SIZE, size - at)) for at in range(0, size, PLACE_SIZE))
    ends = (Place(0, ENDS), Place(size - ENDS, ENDS))
    part = (size - PLACE_SIZE) / PLACES
    scattered = (
        Place(int(part * index + rng.random() * (part - PLACE_SIZE)) // PLACE_SIZE * PLACE_SIZE, PLACE_SIZE)
        for index in range(PLACES)
    )
    return (*ends, *scattered)


def read_places(fd: int, places: tuple[Place, ...]) -> Iterator[tuple[Place, bytes]]:
    """Read each place. Raises OSError, also for a short read."""
    for place in places:
        content = os.pread(fd, place.length, place.offset)
        if len(content) != place.length:
            raise OSError(5, f"only {len(content)} of {place.length} bytes can be read at {place.offset}")
        yield place, content


def digests(fd: int, places: tuple[Place, ...]) -> dict[Place, bytes]:
    """Return the SHA-256 of each place."""
    return {place: sha256(content).digest() for place, content in read_places(fd, places)}


def is_zero(content: bytes) -> bool:
    """Return whether it is all zeros; compares, which is many times quicker than counting."""
    return content == bytes(len(content))


def is_blank(content: bytes) -> bool:
    """Return whether it is all zeros, or all ones as erased flash may read."""
    return is_zero(content) or content == b"\xff" * len(content)
