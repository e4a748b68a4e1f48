"""The pinned manufacturers' roots change only on purpose."""

import hashlib
from importlib.resources import files

from fleetd.ek_roots import pins

DIGEST = "4e251f7ece2c4eab6e7898af0260c1a7968445fa5528c8a9324cb936047d1d7b"


def test_the_pins_are_those_that_were_reviewed():
    content = files("fleetd").joinpath("data/ek-roots.toml").read_bytes()

    assert hashlib.sha256(content).hexdigest() == DIGEST


def test_every_pin_is_a_pair_of_sha_256_values_and_none_is_there_twice():
    known = pins()

    assert len({pin.certificate for pin in known}) == len(known)
    assert all(len(bytes.fromhex(pin.certificate)) == len(bytes.fromhex(pin.spki)) == 32 for pin in known)
