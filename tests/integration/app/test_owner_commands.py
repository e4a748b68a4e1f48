"""`fleetd seeds render`, `nodes drift` and `kea write` on a real database, and the drift that NetBox is told."""

import json
import shutil
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetd.cli import program
from fleetd.core.declaration import Address, Disk
from fleetd.core.names import MachineId, disk_serial
from fleetd.store.enrollments import EnrollmentRow
from fleetd.store.machines import MachineRow
from tests.worlds import a_declaration

CHECKOUT = Path(__file__).resolve().parents[3]
SECRET = "only the node may know"


@pytest.fixture
def run(stage, engine, tmp_path):
    """Run fleetd on the stage's database; gives exit status and output."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text(SECRET)
    (tmp_path / "ca.pem").write_text("the CA")
    entry = {
        "name": "node",
        "family": "cloud-init-nocloud",
        "image": {"url": "https://i", "sha256": "0" * 64, "size": 1024},
        "attestation": {"install": {"boot": "network-trusted"}, "allow_secrets_in_network_trusted": True},
        "seed": {
            "template": "cloud-init-basic",
            "secrets": ["token"],
            "values": {"secret_files": {"token": "/etc/token"}},
        },
    }
    (tmp_path / "classes.json").write_text(json.dumps({"version": 1, "classes": [entry]}))
    config = tmp_path / "fleetd.toml"
    address = engine.url.render_as_string(hide_password=False)
    config.write_text(
        f"[database]\nurl = {json.dumps(address)}\n"
        f"[machine]\npublic_url = 'https://fleetd.example.org:7443'\nca_file = '{tmp_path / 'ca.pem'}'\n"
        f"[paths]\nclasses_file = '{tmp_path / 'classes.json'}'\nsecrets = '{folder}'\n"
        f"templates = '{CHECKOUT / 'templates'}'\n"
        f"[[kea.subnets]]\nprefix = '198.51.100.0/24'\nfile = '{tmp_path / 'kea.json'}'\n"
    )
    app, runner = program(), CliRunner()
    return lambda *words: runner.invoke(app, ["--config", str(config), *words], env={"COLUMNS": "200"})


def declare(stage, number=7, **changes):
    stage.netbox.declare(a_declaration(number, machine_class="node", **changes))
    stage.turn()


def reports(stage, number=7, after=0, **facts):
    """The machine proves itself and says this of itself."""
    told = {
        "dmi": {"serial": f"SN{number}", "firmware": "2.1"},
        "macs": [f"52:54:00:00:00:{number:02x}"],
        "disks": [{"serial": f"disk{number}", "wwn": ""}],
    }
    keys = ("ek_name", "lak_public", "lak_name", "lak_unique", "ldevid_public", "ldevid_private")
    with stage.sessions.begin() as session:
        session.add(
            EnrollmentRow(
                id=uuid.uuid4(),
                machine_id=number,
                made=stage.clock.now() + timedelta(minutes=after),
                verified=True,
                ek_hash="00",
                facts={**told, **facts},
                findings=[],
                pcrs={},
                pcr_digest="",
                **dict.fromkeys(keys, b""),
            )
        )


# --- seeds render ----------------------------------------------------------------------------------------------------------


def test_a_seed_is_shown_without_its_secrets_unless_they_are_asked_for(stage, run):
    declare(stage)

    hidden, shown = run("seeds", "render", "--device", "node7"), run("seeds", "render", "--device", "node7", "--reveal")

    assert (hidden.exit_code, shown.exit_code) == (0, 0), hidden.output
    assert "--- user-data" in hidden.output
    assert 'hostname: "node7"' in hidden.output
    assert (SECRET in hidden.output, SECRET in shown.output) == (False, True)


def test_a_secret_that_others_may_read_is_named_and_not_printed(stage, run, tmp_path):
    declare(stage)
    (tmp_path / "secrets" / "token").chmod(0o644)

    done = run("seeds", "render", "--device", "node7", "--reveal")

    assert done.exit_code == 1
    assert "chmod 0600" in done.output
    assert SECRET not in done.output


def test_a_node_that_nobody_knows_is_no_seed(stage, run):
    assert run("seeds", "render", "--device", "nobody").exit_code == 2


def test_a_seed_in_a_file_is_for_its_owner_alone(stage, run, tmp_path):
    declare(stage)

    assert run("seeds", "render", "--device", "node7", "--output", str(tmp_path / "seed.tar")).exit_code == 0

    assert (tmp_path / "seed.tar").stat().st_mode & 0o777 == 0o600


def test_user_data_that_cloud_init_refuses_is_found_by_the_check_of_classes(stage, run, tmp_path):
    if shutil.which("cloud-init") is None:
        pytest.skip("cloud-init is not installed")
    shutil.copytree(CHECKOUT / "templates", tmp_path / "templates")
    with (tmp_path / "templates" / "cloud-init-basic" / "user-data").open("a") as template:
        template.write("packages: 7\n")
    config = tmp_path / "fleetd.toml"
    config.write_text(config.read_text().replace(str(CHECKOUT / "templates"), str(tmp_path / "templates")))

    done = run("classes", "check", "--seeds")

    assert done.exit_code == 1
    assert "cloud-init schema" in done.output
    assert SECRET not in done.output


def test_a_class_and_the_seeds_it_needs_are_checked(stage, run, tmp_path):
    assert run("classes", "check", "--seeds").exit_code == 0
    (tmp_path / "secrets" / "token").unlink()

    done = run("classes", "check", "--seeds")

    assert (done.exit_code, "No such file" in done.output) == (1, True)


# --- drift -----------------------------------------------------------------------------------------------------------------


def test_machines_that_are_as_declared_have_no_drift(stage, run):
    declare(stage)
    reports(stage)

    done = run("nodes", "drift")

    assert (done.exit_code, done.output) == (0, "0 differences in 1 nodes; 0 never reported\n")


def test_drift_is_named_by_node_and_field_and_netbox_is_told_the_same(stage, run):
    declare(stage, firmware="2.2")
    declare(stage, 8)
    reports(stage, dmi={"serial": "OTHER", "firmware": "2.1"})
    reports(stage, 8)
    with stage.sessions.begin() as session:
        session.get(MachineRow, 7).next_look_at = stage.clock.now()
    stage.turn()

    done = run("nodes", "drift", "--json")

    rows = json.loads(done.output)
    assert done.exit_code == 1
    assert rows == [
        {"node": "node7", "field": "serial", "declared": "SN7", "reported": "OTHER"},
        {"node": "node7", "field": "firmware", "declared": "2.2", "reported": "2.1"},
    ]
    assert stage.netbox.shown(7)["drift"] == [{key: row[key] for key in row if key != "node"} for row in rows]
    assert run("nodes", "drift", "node8").exit_code == 0


def test_the_newest_report_counts_and_a_mended_declaration_ends_the_drift(stage, run):
    declare(stage)
    reports(stage, disks=[{"serial": "old", "wwn": ""}])
    reports(stage, after=1, disks=[{"serial": "new", "wwn": ""}])
    assert json.loads(run("nodes", "drift", "--json").output)[1]["reported"] == "new"

    declare(stage, disk=Disk(disk_serial("NEW")))

    assert run("nodes", "drift").exit_code == 0
    assert stage.netbox.shown(7)["drift"] == []


def test_a_machine_that_never_reported_is_counted_and_an_unknown_one_is_an_error(stage, run):
    declare(stage)

    assert run("nodes", "drift").output == "0 differences in 1 nodes; 1 never reported\n"
    assert run("nodes", "drift", "nobody").exit_code == 2


# --- kea -------------------------------------------------------------------------------------------------------------------


def test_keas_files_are_written_and_who_is_left_out_is_named(stage, run, tmp_path):
    declare(stage)
    assert run("kea", "write").exit_code == 0
    declare(stage, 8, addresses=(Address("203.0.113.8/24", "eth0"),))

    done = run("kea", "write")

    assert done.exit_code == 1
    assert "left out: machine 8: 203.0.113.8 is in no subnet of Kea" in done.output
    (row,) = json.loads((tmp_path / "kea.json").read_text())
    assert row == {"hw-address": "52:54:00:00:00:07", "hostname": "node7", "ip-address": "198.51.100.7"}


def test_the_class_that_a_machine_was_installed_from_is_told(stage):
    declare(stage)
    with stage.sessions.begin() as session:
        row = session.get(MachineRow, MachineId(7))
        row.installed_digest, row.next_look_at = "ab" * 32, stage.clock.now()

    stage.turn()

    assert stage.netbox.shown(7)["installed_digest"] == "ab" * 32
