"""Commands that only read files: configuration and classes."""

import json
import os

import pytest
from typer.testing import CliRunner

from fleetd.cli import program

GOOD = {
    "name": "lab-alpine",
    "family": "alpine-image",
    "image": {"url": "http://i.example.org/x", "sha256": "0" * 64, "size": 1024},
    "attestation": {"install": {"boot": "network-trusted"}},
}


@pytest.fixture
def fleetd(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("FLEETD_"):
            monkeypatch.delenv(name)
    (tmp_path / "classes.json").write_text(json.dumps({"classes": [GOOD]}))
    (tmp_path / "server.key").touch(0o600)
    (tmp_path / "server.key").write_bytes(b"k" * 32)
    config = tmp_path / "fleetd.toml"
    config.write_text(
        f'[paths]\nclasses_file = "{tmp_path}/classes.json"\nsecrets = "{tmp_path}"\n'
        f'[ca]\nserver_key_file = "{tmp_path}/server.key"\n[machine]\nport = 9443\n'
    )
    runner = CliRunner()

    def run(*arguments, file=config):
        return runner.invoke(program(), ["--config", str(file), *map(str, arguments)])

    return run


def test_a_usable_configuration_is_printed(fleetd):
    done = fleetd("config", "check")

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["machine"]["port"] == 9443


def test_an_unusable_secret_file_is_named(fleetd, tmp_path):
    (tmp_path / "server.key").chmod(0o644)

    done = fleetd("config", "check")

    assert done.exit_code == 1
    assert "ca.server_key_file" in done.stderr


def test_a_wrong_configuration_ends_with_2_and_every_error(fleetd, tmp_path):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("a = 1\n[machine]\nport = 99999\n")

    done = fleetd("config", "check", file=wrong)

    assert done.exit_code == 2
    assert "configuration: a: " in done.stderr
    assert "configuration: machine.port: " in done.stderr


def test_good_classes_are_listed_with_their_warnings(fleetd):
    done = fleetd("classes", "check")

    assert done.exit_code == 0
    assert "lab-alpine: alpine-image, installable" in done.stdout
    assert "warning: The TPM proves which machine asks" in done.stdout


def test_bad_classes_are_named_by_path(fleetd, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps({"classes": [{"name": "X"}]}))

    done = fleetd("classes", "check", tmp_path / "bad.json")

    assert done.exit_code == 1
    assert "$.classes[0].name" in done.stderr


@pytest.mark.parametrize("content", [None, b"{", b"\xff"], ids=["missing", "cut off", "not text"])
@pytest.mark.parametrize(
    "command",
    [("classes", "check"), ("nodes", "apply", "--token-file", "token", "--dry-run")],
    ids=lambda each: each[0],
)
def test_a_file_that_cannot_be_read_is_named_once(fleetd, tmp_path, command, content):
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_bytes(content)

    done = fleetd(*command, file)

    assert done.exit_code != 0
    assert done.stderr.count("mine.yaml") == 1, done.stderr


def test_a_missing_secret_of_a_class_is_told(fleetd, tmp_path):
    (tmp_path / "classes.json").write_text(json.dumps({"classes": [{**GOOD, "seed": {"secrets": ["gone"]}}]}))

    done = fleetd("classes", "check", "--seeds")

    assert done.exit_code == 1
    assert "gone" in done.stdout


def test_the_schema_is_printed(fleetd):
    assert json.loads(fleetd("classes", "schema").stdout)["title"] == "Machine classes of fleetd"


def test_differences_are_said_and_shown_in_the_exit_status(fleetd, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps({"classes": []}))
    old, new = tmp_path / "classes.json", tmp_path / "other.json"

    assert fleetd("classes", "diff", old, old).exit_code == 0
    changed = fleetd("classes", "diff", old, new)
    assert (changed.exit_code, changed.stdout.strip()) == (1, "lab-alpine: removed")
    assert fleetd("classes", "diff", old, tmp_path / "none.json").exit_code == 2
