"""The root's key goes to two media and comes back; whatever is wrong, the key is never lost."""

import subprocess
from pathlib import Path

import pytest

from fleetd.ca.rotation import Rotation
from fleetd.core.certificates.profile import Tier
from fleetd.host import SystemRandom

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "root-ceremony.sh"


@pytest.fixture
def media(tmp_path):
    made = tmp_path / "medium-1", tmp_path / "medium-2"
    for medium in made:
        medium.mkdir()
    return made


def ceremony(*words):
    return subprocess.run([SCRIPT, *map(str, words)], capture_output=True, text=True, check=False)


def test_the_key_goes_away_and_comes_back_for_a_rotation(tree, media, sessions, authority, clock):
    done = ceremony("away", tree.directory, *media)

    assert done.returncode == 0, done.stderr
    assert not tree.root_key_file.exists()
    assert tree.complete
    for medium in media:
        assert (medium / "fleet-root" / "root.key").stat().st_mode & 0o777 == 0o600
        assert ceremony("check", medium, tree.directory / "root.pem").returncode == 0

    assert ceremony("back", tree.directory, media[1]).returncode == 0
    rotation = Rotation(sessions, tree, authority, clock, SystemRandom(), "https://fleetd.example.org")
    assert rotation.begin(Tier.AK).name == "ak-2"
    assert ceremony("away", tree.directory, *media).returncode == 0


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda tree, media: media[1].rmdir(), "mount the medium there"),
        (lambda tree, media: (media[1].rmdir(), media[1].symlink_to(media[0])), "both media are the same"),
        (lambda tree, media: (tree.directory / "root.pem").write_bytes((tree.directory / "ak.pem").read_bytes()), "not the key"),
        (
            lambda tree, media: ((media[0] / "fleet-root").mkdir(), (media[0] / "fleet-root" / "root.key").write_text("x")),
            "holds another key",
        ),
    ],
)  # fmt: skip
def test_a_key_that_was_not_copied_twice_is_not_removed(tree, media, prepare, words):
    before = tree.root_key_file.read_bytes()
    prepare(tree, media)

    done = ceremony("away", tree.directory, *media)

    assert done.returncode == 1
    assert words in done.stderr
    assert tree.root_key_file.read_bytes() == before


def test_a_damaged_copy_and_the_key_of_another_root_are_not_brought_back(tree, media):
    ceremony("away", tree.directory, *media)
    (media[0] / "fleet-root" / "root.key").write_text("damaged")

    damaged = ceremony("back", tree.directory, media[0])

    assert "use the other medium" in damaged.stderr
    assert damaged.returncode == 1
    assert not tree.root_key_file.exists()
    assert ceremony("back", tree.directory, media[1]).returncode == 0
    assert "here already" in ceremony("back", tree.directory, media[1]).stderr


def test_words_that_are_no_step_print_the_usage():
    done = ceremony("burn")

    assert done.returncode == 2
    assert "Usage: root-ceremony.sh away" in done.stderr
