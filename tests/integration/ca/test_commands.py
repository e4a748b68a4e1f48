"""`fleetd ca` on a real database: ceremony, show, pause, revoke, rotate, export."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509
from typer.testing import CliRunner

from fleetd.ca.generations import read_generations
from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.service_keys import ServiceKeys
from fleetd.ca.tree import Tree, make_tree
from fleetd.cli import program
from fleetd.cli.metrics import exporter
from fleetd.config import load_settings
from fleetd.core.certificates.profile import Tier
from fleetd.http import tls
from fleetd.ports import OutageError
from fleetd.store.machines import MachineRow
from fleetd.wiring import Parts, SystemClock, SystemRandom
from tests.integration.ca.conftest import an_order, not_withdrawn


@pytest.fixture
def run(tmp_path, empty_database, sessions):
    config = tmp_path / "fleetd.toml"
    config.write_text(
        f"[database]\nurl = {json.dumps(empty_database)}\n"
        f"[ca]\norganization = 'Example'\ndirectory = '{tmp_path / 'authorities'}'\n"
        f"server_key_file = '{tmp_path / 'server.key'}'\n"
        "[machine]\npublic_url = 'https://fleetd.example.org:7443'\n"
    )
    app, runner = program(), CliRunner()
    return lambda *words: runner.invoke(app, ["--config", str(config), "ca", *words], env={"COLUMNS": "240"})


def ran(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def made(run, tmp_path):
    done = run("init")
    assert done.exit_code == 0, done.output
    return Tree(tmp_path / "authorities")


@pytest.fixture
def issuer(made, sessions):
    return FleetIssuer(sessions, made, SystemClock(), SystemRandom(), "https://fleetd.example.org:7443")


def test_the_ceremony_makes_the_tree_and_says_to_take_the_roots_key_away(run, tmp_path):
    done = run("init")

    folder = tmp_path / "authorities"
    assert done.exit_code == 0
    assert f"copy {folder / 'root.key'} to a medium that is kept offline" in done.output
    assert {file.stat().st_mode & 0o777 for file in folder.glob("*.key")} == {0o600}
    assert "Example" in Tree(folder).certificate(Tier.ROOT).subject.rfc4514_string()
    listed = x509.load_der_x509_crl((folder / "root.crl").read_bytes())
    assert listed.is_signature_valid(Tree(folder).certificate(Tier.ROOT).public_key())


def test_a_second_ceremony_changes_no_authority(run, made):
    before = {file.name: file.read_bytes() for file in made.directory.glob("*.[pk]e[my]")}

    done = run("init", "--organization", "Other")

    assert done.exit_code == 0
    assert "none was changed" in done.output
    assert {file.name: file.read_bytes() for file in made.directory.glob("*.[pk]e[my]")} == before


def test_show_names_each_authority_and_where_the_roots_key_is(run, made):
    assert "root key: on this host" in run("show").output
    (made.directory / "root.key").unlink()

    shown = run("show").output

    assert "root key: not here, as it should be" in shown
    assert all(f"Example {name}" in shown for name in ("root CA", "DevID issuing CA", "AK issuing CA", "server CA"))


def test_show_without_a_tree_says_what_to_do(run):
    done = run("show")

    assert done.exit_code == 1
    assert "run `fleetd ca init`" in done.output


def test_a_pause_stops_issuing_until_it_is_resumed(run, issuer):
    run("pause", "--reason", "key ceremony", "--by", "anna")
    with pytest.raises(OutageError, match="anna: key ceremony"):
        issuer.issue(an_order())
    assert "issuing is paused" in run("show").output

    run("resume")

    assert issuer.issue(an_order())


def test_a_revocation_is_published_at_once(run, issuer, made, sessions):
    issued = issuer.issue(an_order())

    assert run("revoke", "7", "--reason", "keyCompromise").exit_code == 0
    assert run("revoke", "7", "--reason", "spite").exit_code == 2

    assert issuer.current(7) is None
    assert not not_withdrawn(issuer, 7, issued.ldevid_serial)


def test_a_revocation_that_cannot_be_published_counts_and_says_so(run, issuer, made):
    issued = issuer.issue(an_order())
    (made.directory / "devid.key").chmod(0o644)

    done = run("revoke", "7", "--reason", "keyCompromise")

    assert done.exit_code == 1
    assert "every certificate of machine 7 is revoked, but a revocation list cannot be signed" in done.output
    assert not not_withdrawn(issuer, 7, issued.ldevid_serial)


@pytest.mark.parametrize("reason", ["removeFromCRL", "certificateHold", "because"])
def test_a_reason_that_revokes_nothing_is_a_wrong_word(run, made, reason):
    done = run("revoke", "7", "--reason", reason)

    assert done.exit_code == 2
    assert "is no reason of a revocation" in done.output


def test_a_ceremony_with_the_key_of_another_root_changes_nothing(run, made, tmp_path, monkeypatch):
    other = make_tree(tmp_path / "other", "Example", "", SystemClock().now(), SystemRandom())
    before = made.root_list_file.read_bytes()
    made.root_key_file.write_bytes(other.root_key_file.read_bytes())

    done = run("init")

    assert done.exit_code == 1
    assert "is not the key of" in done.output
    assert made.root_list_file.read_bytes() == before


def test_a_rotation_goes_from_begin_to_complete(run, issuer, made, sessions):
    issued = issuer.issue(an_order())
    issuer.installed(7, (issued.ldevid_serial, issued.lak_serial))
    with sessions.begin() as session:
        session.add(MachineRow(id=7, node_name="node-7", created_at=SystemClock().now()))

    begun = run("rotate", "begin", "devid")
    shown = run("rotate", "status", "devid")
    early = run("rotate", "complete", "devid")
    with sessions.begin() as session:
        session.get_one(MachineRow, 7).check_state = "lost"
    done = run("rotate", "complete", "devid")

    assert "devid-2 issues from now on" in begun.output
    assert "0 of 1 machines moved (0 %)" in shown.output
    assert early.exit_code == 1
    assert "node-7" in early.output
    assert done.exit_code == 0
    assert "must enroll again when it comes back: node-7" in done.output


def test_a_rotation_of_the_server_ca_renews_the_tls_certificate_below_the_same_root(run, made):
    before = made.server_files[0].read_bytes()

    assert run("rotate", "begin", "server").exit_code == 0
    assert run("rotate", "complete", "server").exit_code == 0

    assert made.server_files[0].read_bytes() != before
    assert made.issuer(Tier.SERVER).name == "server-2"


def test_an_aborted_rotation_leaves_the_old_authority_and_a_refused_step_ends_with_status_1(run, made):
    run("rotate", "begin", "ak")

    assert run("rotate", "abort", "ak").exit_code == 0
    assert run("rotate", "abort", "ak").exit_code == 1
    assert run("rotate", "begin", "root").exit_code == 2
    (made.directory / "root.key").unlink()
    refused = run("rotate", "begin", "ak")

    assert refused.exit_code == 1
    assert "bring it back" in refused.output
    assert made.issuer(Tier.AK).name == "ak"


@pytest.mark.parametrize("name", ["devid-2.pem", "devid-2.key"])
def test_a_folder_in_place_of_a_file_is_told_in_words(run, made, name):
    (made.directory / name).mkdir()

    done = run("rotate", "begin", "devid")

    assert done.exit_code == 1
    assert f"fleetd ca rotate begin: {made.directory / name}" in done.output


def test_the_export_holds_what_relying_parties_need_and_no_key(run, made, tmp_path):
    run("rotate", "begin", "devid")
    run("rotate", "begin", "service")
    out = tmp_path / "out"

    done = run("export", str(out))

    assert done.exit_code == 0, done.output
    assert len(x509.load_pem_x509_certificates((out / "devid-chain.pem").read_bytes())) == 3
    assert len(x509.load_pem_x509_certificates((out / "devid-issuers.pem").read_bytes())) == 2
    assert len(x509.load_pem_x509_certificates((out / "bundle.pem").read_bytes())) == 5
    assert (out / "crl-urls.txt").read_text().splitlines() == [
        f"{name} https://fleetd.example.org:7443/v1/crl/{name}" for name in ("root", "devid-2", "devid", "ak")
    ]
    for name in ("root", "devid", "devid-2", "ak"):
        issuer = x509.load_pem_x509_certificate((out / f"{name}.pem").read_bytes())
        listed = x509.load_der_x509_crl((out / f"{name}.crl").read_bytes())
        assert listed.is_signature_valid(issuer.public_key())
    keys = json.loads((out / "service-keys.json").read_text())["keys"]
    assert [key["kid"] for key in keys] == list(ServiceKeys(made.directory)().kids())
    assert json.loads((out / "record-keys.json").read_text())["keys"] == keys
    assert not any(b"PRIVATE" in file.read_bytes() for file in out.iterdir())


def test_an_export_that_cannot_be_made_says_why(run, made, tmp_path):
    (made.directory / "service.key").chmod(0o644)

    done = run("export", str(tmp_path / "out"))

    assert done.exit_code == 1
    assert "mode 0644" in done.output


def test_a_reissue_is_of_one_machine_or_of_all(run, issuer):
    for number in (7, 8):
        issuer.issue(an_order(number))

    assert "2 certificates are replaced" in run("reissue", "7").output
    assert issuer.renewal_due(7)
    assert not issuer.renewal_due(8)
    assert "4 certificates are replaced" in run("reissue", "--all").output
    assert run("reissue").exit_code == 2
    assert run("reissue", "7", "--all").exit_code == 2
    none = run("reissue", "9")
    assert none.exit_code == 1
    assert "machine 9 has no certificate in force" in none.output


def test_the_service_key_goes_from_begin_to_complete(run, made):
    (before,) = ServiceKeys(made.directory)().kids()

    begun = run("rotate", "begin", "service")
    again = run("rotate", "begin", "service")
    shown = run("rotate", "status", "service")
    done = run("rotate", "complete", "service")

    assert "service-2 is published beside the old service key" in begun.output
    assert again.exit_code == 1
    assert "no machine depends on either" in shown.output
    assert done.exit_code == 0, done.output
    assert before not in ServiceKeys(made.directory)().kids()
    run("rotate", "begin", "service")
    assert run("rotate", "abort", "service").exit_code == 0
    assert run("rotate", "abort", "service").exit_code == 1


def test_the_ends_of_what_lies_in_files_are_exposed_also_without_a_database(made, tmp_path):
    parts = Parts(load_settings(tmp_path / "fleetd.toml"))

    ends = {
        (sample.name, sample.labels.get("authority", "")): sample.value - parts.clock.now().timestamp()
        for family in exporter(parts).collect()
        for sample in family.samples
        if sample.name.endswith("_timestamp_seconds")
    }

    day = 86_400
    assert ends["fleetd_authority_expiry_timestamp_seconds", "devid"] == pytest.approx(5 * 365 * day, abs=300)
    assert ends["fleetd_crl_next_update_timestamp_seconds", "root"] == pytest.approx(365 * day, abs=300)
    assert ends["fleetd_server_certificate_expiry_timestamp_seconds", ""] == pytest.approx(90 * day, abs=300)
    assert len(ends) == 6


def test_an_owners_own_server_certificate_is_the_one_whose_end_is_exposed(run, made, sessions, tmp_path):
    root = made.directory / "root.pem"
    with (tmp_path / "fleetd.toml").open("a") as config:
        config.write(f"certificate = '{root}'\nkey = '{made.directory / 'root.key'}'\nca_file = '{root}'\n")
    parts = Parts(load_settings(tmp_path / "fleetd.toml"))

    text = exporter(parts).exposition()[0].decode()

    end = x509.load_pem_x509_certificate(root.read_bytes()).not_valid_after_utc.timestamp()
    (told,) = (line for line in text.splitlines() if line.startswith("fleetd_server_certificate_expiry_"))
    assert float(told.split()[1]) == end


@pytest.mark.slow
def test_commands_that_rotate_at_once_lose_nothing_of_one_another(run, made, tmp_path):
    """Eight processes: of each kind one begins, and every kind is under way at the end."""
    kinds = ("devid", "ak", "server", "service")
    command = (sys.executable, "-m", "fleetd", "--config", str(tmp_path / "fleetd.toml"), "ca", "rotate", "begin")
    with ThreadPoolExecutor(8) as owners:
        done = list(owners.map(lambda kind: ran(*command, kind), 2 * kinds))

    begun, refused = ([each for each in done if (each.returncode == 0) is good] for good in (True, False))
    assert len(begun) == len(kinds), [each.stderr for each in done]
    assert all("is under way already" in each.stderr for each in refused), [each.stderr for each in refused]
    for kind in kinds:
        found = read_generations(made.directory, kind)
        assert (found.active, found.leaving) == (2, 1), kind


def test_processes_that_start_at_once_make_one_server_key_and_a_certificate_of_it(made):
    certificate, key = made.server_files
    certificate.unlink()
    key.unlink()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fleetd.ca.tree import Tree, keep_server_certificate\n"
        "from fleetd.wiring import SystemClock, SystemRandom\n"
        "tree = Tree(Path(sys.argv[1]))\n"
        "print(keep_server_certificate(tree, ['fleetd.example.org'], SystemClock().now(), SystemRandom()))"
    )
    with ThreadPoolExecutor(4) as processes:
        done = list(processes.map(lambda _: ran(sys.executable, "-c", code, str(made.directory)), range(4)))

    assert sorted(each.stdout.strip() for each in done) == ["False", "False", "False", "True"], done
    tls.tested_set(certificate, key, SystemClock().now())
    assert not list(made.directory.glob("*.new"))
