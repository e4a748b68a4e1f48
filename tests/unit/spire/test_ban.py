"""Banning agents by SPIRE's command line; a script stands in for the program and keeps what it was told."""

from hashlib import sha1
from pathlib import Path

import pytest

from fleetd.ports import OutageError
from fleetd.spire import SpireServer

DEVID = b"an LDevID certificate"
ID = f"spiffe://lab.example/spire/agent/tpm_devid/{sha1(DEVID, usedforsecurity=False).hexdigest()}"


def spire(folder: Path, answer: str) -> SpireServer:
    """Return a server whose program writes its arguments down and then does what the shell text says."""
    program = folder / "spire-server"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {folder / "told"}\n{answer}\n')
    program.chmod(0o755)
    return SpireServer("lab.example", str(program), Path("/run/spire.sock"))


def test_the_agent_of_a_certificate_is_banned_on_the_servers_socket(tmp_path):
    assert spire(tmp_path, "exit 0").ban([DEVID]) == (ID,)

    told = (tmp_path / "told").read_text().split()
    assert told == ["agent", "ban", "-socketPath", "/run/spire.sock", "-spiffeID", ID]


def test_an_agent_that_never_joined_is_no_failure_and_not_called_banned(tmp_path):
    answer = 'echo "rpc error: code = NotFound desc = agent not found" >&2; exit 1'

    assert spire(tmp_path, answer).ban([DEVID]) == ()


@pytest.mark.parametrize("answer", ['echo "connection refused" >&2; exit 1', "exit 3"])
def test_a_server_that_does_not_answer_is_asked_again_later(tmp_path, answer):
    with pytest.raises(OutageError, match="did not ban"):
        spire(tmp_path, answer).ban([DEVID])


@pytest.mark.parametrize(
    "answer",
    [
        "echo 'Error from server (NotFound): pods \"spire-server-0\" not found' >&2; exit 1",
        "echo 'sh: 1: spire-server: not found' >&2; exit 127",
        "echo 'Error: No such container: spire' >&2; exit 1",
    ],
)
def test_a_server_that_is_not_found_is_not_an_agent_that_never_joined(tmp_path, answer):
    with pytest.raises(OutageError, match="did not ban"):
        spire(tmp_path, answer).ban([DEVID])


def test_a_program_that_is_not_there_is_an_outage_that_says_so(tmp_path):
    with pytest.raises(OutageError, match="cannot be asked"):
        SpireServer("lab.example", str(tmp_path / "absent")).ban([DEVID])


def test_no_certificate_asks_nothing(tmp_path):
    assert spire(tmp_path, "exit 1").ban([]) == ()
    assert not (tmp_path / "told").exists()
