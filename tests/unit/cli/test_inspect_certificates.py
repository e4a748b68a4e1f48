"""`fleetd inspect ek` and `certificate` and `fleetd ek-roots` work from files alone."""

import json

import pytest
from typer.testing import CliRunner

from fleetd.cli import program
from fleetd.ek_roots import pins
from tests.conftest import SHARED
from tests.unit.attestation.maker import Ca, ecc_key, ek_certificate

FOLDER = SHARED / "data" / "ek"
ENTRIES = json.loads((FOLDER / "manifest.json").read_text())["files"] if FOLDER.exists() else []


@pytest.fixture
def run():
    app, runner = program(), CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


@pytest.fixture
def maker(tmp_path):
    root = Ca("Root of a maker")
    issuing = Ca("Issuing CA of a maker", root)
    for folder, ca in (("roots", root), ("links", issuing)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ca.der").write_bytes(ca.der)
    (tmp_path / "ek.der").write_bytes(ek_certificate(issuing, ecc_key().public_key()))
    return tmp_path


def test_an_ek_certificate_whose_path_ends_at_a_given_root_is_accepted(run, maker):
    done = run(
        "inspect", "ek", maker / "ek.der", "--roots", maker / "roots", "--intermediates", maker / "links", "--json"
    )

    (shown,) = json.loads(done.stdout)
    assert done.exit_code == 0
    assert shown["accepted"]
    assert [link["subject"] for link in shown["chain"]][1:] == ["CN=Issuing CA of a maker", "CN=Root of a maker"]


def test_without_roots_it_is_refused_with_status_1(run, maker):
    done = run("inspect", "ek", maker / "ek.der", "--intermediates", maker / "links", "--json")

    assert done.exit_code == 1
    assert "ek-chain-incomplete" in {finding["code"] for finding in json.loads(done.stdout)[0]["findings"]}


def test_a_leaf_among_the_roots_does_not_vouch_for_itself(run, maker):
    done = run("inspect", "ek", maker / "ek.der", "--roots", maker, "--json")

    assert len(json.loads(done.stdout)[0]["chain"]) > 1
    assert run("inspect", "ek", maker / "ek.der", "--roots", maker / "ek.der").exit_code == 1


def test_a_ca_certificate_has_a_path_but_is_no_ek_certificate(run, maker):
    where = ("--roots", maker / "roots")

    assert run("inspect", "certificate", maker / "links" / "ca.der", *where).exit_code == 0
    assert run("inspect", "ek", maker / "links" / "ca.der", *where).exit_code == 1


def test_bytes_that_are_no_certificate_end_with_status_2(run, maker):
    (maker / "noise.der").write_bytes(b"\x30\x03abc")

    done = run("inspect", "ek", maker / "noise.der", "--json")

    assert done.exit_code == 2
    assert json.loads(done.stdout)[0]["accepted"] is False


def test_an_unpinned_root_is_named_and_refused_and_taken_only_with_a_reason(run, maker):
    kept = maker / "kept"

    refused = run("ek-roots", "import", maker / "roots", "--directory", kept)
    unreasoned = run("ek-roots", "import", maker / "roots", "--directory", kept, "--trust-unpinned")
    taken = run("ek-roots", "import", maker / "roots", "--directory", kept, "--trust-unpinned", "--reason", "our lab")

    assert refused.exit_code == 1
    assert "not pinned" in refused.stdout
    assert unreasoned.exit_code == 2
    assert taken.exit_code == 0
    assert "Root of a maker" in run("ek-roots", "list", "--directory", kept).stdout


def test_the_list_shows_which_pinned_roots_are_not_at_hand(run, maker):
    shown = json.loads(run("ek-roots", "list", "--directory", maker / "nothing", "--json").stdout)

    assert len(shown) == len(pins())
    assert not any(row["at_hand"] for row in shown)


@pytest.mark.skipif(not ENTRIES, reason="the recorded certificates are not here")
def test_the_published_intermediates_are_admitted_below_pinned_roots_and_test_roots_are_not(run, maker):
    kept = maker / "kept"

    run("ek-roots", "import", FOLDER, "--directory", kept)

    names = {file.stem for file in (kept / "manufacturers").iterdir()} | {
        file.stem for file in (kept / "links").iterdir()
    }
    fakes = {entry["der_sha256"] for entry in ENTRIES if entry["expected"].startswith("test PKI")}
    roots = {entry["der_sha256"] for entry in ENTRIES if entry["kind"] == "root"} - fakes
    assert roots <= names
    assert len(names) > len(roots)
    assert not names & fakes
    assert not (kept / "owner").exists()


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e["kind"] in {"ek", "ica"}], ids=lambda entry: entry["name"])
def test_each_published_certificate_gets_its_expected_result_on_the_command_line(run, entry, tmp_path):
    here = [FOLDER / issuer["name"] for issuer in entry["issued_by"] if issuer["set"] == "here"]
    roots = tmp_path / "roots"
    roots.mkdir()
    for issuer in here:
        (roots / issuer.name).write_bytes(issuer.read_bytes())

    done = run(
        "inspect", "ek" if entry["kind"] == "ek" else "certificate", FOLDER / entry["name"], "--roots", roots, "--json"
    )

    (shown,) = json.loads(done.stdout)
    if entry["expected"].startswith("accept") and here:
        assert shown["accepted"], shown["findings"]
    if entry["kind"] == "ek" and not here:
        assert done.exit_code == 1
