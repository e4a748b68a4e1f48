"""Each set-up here is really broken: a real PostgreSQL and Valkey, real files and keys, an HTTP server in NetBox's place."""

import json
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import text

from fleetd.ca.tree import make_tree
from fleetd.config import Settings
from fleetd.doctor.authority import authority, listener
from fleetd.doctor.cluster import cluster
from fleetd.doctor.database import broker, database
from fleetd.doctor.examine import examine
from fleetd.doctor.files import classes, roots, secrets, workflows
from fleetd.doctor.netbox import netbox
from fleetd.doctor.notes import Level
from fleetd.netbox.contract import HEADER, SPOKEN
from fleetd.store.engine import open_engine
from fleetd.store.migrate import upgrade

CHECKOUT = Path(__file__).resolve().parents[3]
CLASS = {
    "name": "lab-alpine",
    "family": "alpine-image",
    "image": {"url": "http://127.0.0.1:1/x", "sha256": "0" * 64, "size": 1024},
    "attestation": {"install": {"boot": "network-trusted"}},
}


@dataclass
class Pretended:
    """What an HTTP server answers by path."""

    answers: dict[str, tuple[int, object]] = field(default_factory=dict)
    date: datetime | None = None
    url: str = ""
    contract: str = SPOKEN


@contextmanager
def serving(pretended: Pretended):
    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = pretended.answers.get(self.path.split("?")[0], (404, {"detail": "not found"}))
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header(HEADER, pretended.contract)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        def do_GET(self):
            self.answer()

        def do_POST(self):
            self.answer()

        def do_HEAD(self):
            self.answer()

        def date_time_string(self, timestamp=None):
            return format_datetime(pretended.date or datetime.now(UTC), usegmt=True)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pretended.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield pretended
    finally:
        server.shutdown()
        server.server_close()


def a_netbox(version="4.7.2", plugins=("netbox_fleet",), declarations=200, reports=200) -> Pretended:
    return Pretended(
        {
            "/api/status/": (200, {"netbox-version": version, "plugins": dict.fromkeys(plugins, "0.1.0")}),
            "/api/plugins/fleet/declarations/": (declarations, {"results": []}),
            "/api/plugins/fleet/reports/": (reports, {"accepted": 0}),
        }
    )


def closed(file: Path, content: bytes = b"hush") -> Path:
    file.touch(0o600)
    file.write_bytes(content)
    return file


def seen(probe, **sections):
    """What the probe says of a configuration with these sections."""
    return list(probe(Settings(**sections)))


def complaint(notes, level=Level.BROKEN):
    """The one thing that is wrong: what is seen, and what to do."""
    (note,) = (note for note in notes if note.level is level)
    assert note.do, "a complaint says what to do"
    return f"{note.part}: {note.says}", note.do


# --- PostgreSQL and Valkey


def test_postgresql_that_does_not_run():
    says, do = complaint(seen(database, database={"url": "postgresql://127.0.0.1:1/fleetd"}))

    assert "cannot be used" in says
    assert "database.url" in do


def test_a_database_without_tables(empty_database):
    assert complaint(seen(database, database={"url": empty_database})) == (
        "database: the database has no tables of fleetd",
        "Run `fleetd migrate`.",
    )


def test_a_database_that_a_newer_fleetd_made(empty_database):
    upgrade(empty_database)
    engine = open_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()

    says, do = complaint(seen(database, database={"url": empty_database}))

    assert "9999" in says
    assert "newer version" in do


def test_a_migrated_database_is_good(empty_database):
    upgrade(empty_database)

    assert [note.level for note in seen(database, database={"url": empty_database})] == [Level.GOOD]


def test_a_database_password_file_that_is_missing(tmp_path):
    says, _ = complaint(seen(database, database={"url": "postgresql:///x", "password_file": tmp_path / "none"}))

    assert "password file" in says


def test_a_broker_that_does_not_run():
    says, do = complaint(seen(broker, broker={"url": "redis://127.0.0.1:1/0"}))

    assert "cannot be reached" in says
    assert "broker.url" in do


def test_a_broker_that_refuses_the_password(valkey, tmp_path):
    wrong = closed(tmp_path / "password", b"wrong")

    says, do = complaint(seen(broker, broker={"url": f"redis://127.0.0.1:{valkey.port}/0", "password_file": wrong}))

    assert "refused" in says
    assert "broker.password_file" in do


# --- NetBox


@pytest.fixture
def token(tmp_path):
    return closed(tmp_path / "token")


def netbox_notes(token, pretended):
    with serving(pretended):
        return seen(netbox, netbox={"url": pretended.url, "token_file": token, "webhook_secret_file": token})


def test_no_token():
    says, do = complaint(seen(netbox, netbox={}))

    assert "token_file is not set" in says
    assert "fleet_service_account" in do


def test_a_netbox_that_does_not_run(token):
    assert "cannot be reached" in complaint(seen(netbox, netbox={"url": "http://127.0.0.1:1", "token_file": token}))[0]


def test_something_else_in_netboxs_place(token):
    notes = netbox_notes(token, Pretended({"/api/status/": (200, b"<html>")}))

    assert "not as NetBox does" in complaint(notes)[0]


def test_a_token_that_netbox_refuses(token):
    notes = netbox_notes(token, Pretended({"/api/status/": (403, {"detail": "Invalid token"})}))

    assert complaint(notes)[0] == "netbox token: NetBox refuses the token"


def test_a_netbox_of_another_version(token):
    assert "4.5.1 is not supported" in complaint(netbox_notes(token, a_netbox("4.5.1")))[0]


def test_a_netbox_without_the_plugin(token):
    says, do = complaint(netbox_notes(token, a_netbox(plugins=())))

    assert "does not run the plugin" in says
    assert "PLUGINS" in do


def test_a_plugin_of_another_version(token, monkeypatch):
    monkeypatch.setattr("fleetd.doctor.netbox.version", lambda: "0.2.0")

    says, do = complaint(netbox_notes(token, a_netbox()), Level.WARNS)

    assert "netbox_fleet 0.1.0, this is fleetd 0.2.0" in says
    assert "plugin first" in do


@pytest.mark.parametrize("status", [200, 409])
def test_a_plugin_that_speaks_another_contract(token, status):
    pretended = a_netbox(declarations=status)
    pretended.contract = "7"

    says, do = complaint(netbox_notes(token, pretended))

    assert (
        says
        == "plugin: NetBox's plugin answers by contract '7', this fleetd speaks 1: bring both to the same version, the plugin first"
    )
    assert "fleetd does nothing" in do


def test_a_token_that_lacks_rights(token):
    says, do = complaint(netbox_notes(token, a_netbox(reports=403)))

    assert says == "netbox token: the token may not send reports"
    assert "fleet_service_account" in do


def test_a_clock_that_goes_wrong(token):
    pretended = a_netbox()
    pretended.date = datetime.now(UTC) - timedelta(minutes=10)

    says, do = complaint(netbox_notes(token, pretended))

    assert "differ by" in says
    assert "NTP" in do


def test_a_netbox_without_fault_is_good(token):
    assert {note.level for note in netbox_notes(token, a_netbox())} == {Level.GOOD}


def test_no_webhook_is_a_warning(token):
    with serving(a_netbox()) as pretended:
        notes = seen(netbox, netbox={"url": pretended.url, "token_file": token})

    assert "webhook_secret_file is not set" in complaint(notes, Level.WARNS)[0]


# --- Tinkerbell


def kubeconfig(folder: Path, url: str) -> Path:
    file = folder / "kubeconfig"
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "contexts": [context],
                "clusters": [{"name": "x", "cluster": {"server": url}}],
                "users": [{"name": "x", "user": {}}],
            }
        )
    )
    return file


def listed(status=200) -> dict:
    body = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
    base = "/apis/{}/v1alpha1/namespaces/tinkerbell/{}"
    names = [("tinkerbell.org", kind) for kind in ("hardware", "templates", "workflows")]
    names += [("bmc.tinkerbell.org", kind) for kind in ("machines", "jobs")]
    return {base.format(*name): (status, body) for name in names}


def cluster_notes(folder, answers):
    with serving(Pretended(answers)) as pretended:
        return seen(cluster, tinkerbell={"kubeconfig": kubeconfig(folder, pretended.url)})


def test_a_kubeconfig_that_is_missing(tmp_path):
    says, do = complaint(seen(cluster, tinkerbell={"kubeconfig": tmp_path / "none"}))

    assert "no way to Kubernetes" in says
    assert "tinkerbell.kubeconfig" in do


def test_a_cluster_that_does_not_answer(tmp_path):
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")

    assert "not to be had" in complaint(seen(cluster, tinkerbell={"kubeconfig": file}))[0]


def test_a_cluster_without_rufio(tmp_path):
    answers = {path: answer for path, answer in listed().items() if "bmc." not in path}

    says, do = complaint(cluster_notes(tmp_path, answers))

    assert says == "rufio: the cluster knows no machines, jobs of bmc.tinkerbell.org"
    assert "Rufio" in do


def test_a_cluster_in_which_fleetd_has_no_rights(tmp_path):
    notes = [note for note in cluster_notes(tmp_path, listed(403)) if note.level is Level.BROKEN]

    assert {note.part for note in notes} == {"tinkerbell", "rufio"}
    assert all("rbac.yaml" in note.do for note in notes)
    assert (CHECKOUT / "deploy/kubernetes/rbac.yaml").exists()


def test_a_cluster_with_everything_is_good(tmp_path):
    assert [note.level for note in cluster_notes(tmp_path, listed())] == [Level.GOOD, Level.GOOD]


# --- keys and certificates


class Random:
    def bytes(self, count):
        return os.urandom(count)


def own_authority(folder: Path, now: datetime):
    make_tree(folder / "ca", "Example", "https://fleetd.example.org", now, Random())
    return {"directory": folder / "ca", "server_key_file": closed(folder / "server.key", b"x" * 32)}


def test_no_authority_yet(tmp_path):
    key = closed(tmp_path / "server.key", b"x" * 32)

    says, do = complaint(seen(authority, ca={"directory": tmp_path / "ca", "server_key_file": key}))

    assert "missing" in says
    assert "fleetd ca init" in do


def test_an_authority_that_has_expired(tmp_path):
    own = own_authority(tmp_path, datetime.now(UTC) - timedelta(days=40 * 366))

    notes = seen(authority, ca=own)

    assert any("expired on" in note.says and "ca rotate" in note.do for note in notes)


def test_a_server_key_that_others_can_read(tmp_path):
    own = own_authority(tmp_path, datetime.now(UTC))
    own["server_key_file"].chmod(0o644)

    assert "0644" in complaint(seen(authority, ca=own))[0]


def test_the_roots_key_beside_the_service_is_a_warning(tmp_path):
    notes = seen(authority, ca=own_authority(tmp_path, datetime.now(UTC)))

    assert "root's key is on this host" in complaint(notes, Level.WARNS)[0]
    assert not [note for note in notes if note.level is Level.BROKEN]


def test_a_public_url_that_is_each_machine_itself():
    assert "would call itself" in complaint(seen(listener, machine={"public_url": "https://127.0.0.1:7443"}))[0]


def test_a_certificate_without_its_key(tmp_path):
    wanted = {"public_url": "https://fleetd.example.org", "certificate": tmp_path / "c.pem"}

    assert "only one of" in complaint(seen(listener, machine=wanted))[0]


def test_a_certificate_that_is_none(tmp_path):
    file = closed(tmp_path / "c.pem", b"none")
    wanted = {"public_url": "https://fleetd.example.org", "certificate": file, "key": file, "ca_file": file}

    assert "cannot be used" in complaint(seen(listener, machine=wanted))[0]


# --- files of the owner


def paths(folder: Path, classes_json: object, **more) -> dict:
    (folder / "classes.json").write_text(json.dumps(classes_json))
    return {
        "classes_file": folder / "classes.json",
        "templates": CHECKOUT / "templates",
        "workflows": CHECKOUT / "workflows",
        "secrets": folder / "secrets",
        "roots": folder / "roots",
        **more,
    }


def test_a_secret_file_that_others_can_read(tmp_path):
    file = closed(tmp_path / "password")
    file.chmod(0o640)

    says, do = complaint([note for note in seen(secrets, database={"password_file": file}) if "database" in note.says])

    assert "0640" in says
    assert "0600" in do


def test_classes_that_are_wrong(tmp_path):
    notes = seen(classes, paths=paths(tmp_path, {"classes": [{**CLASS, "family": "windows"}]}))

    assert any("family" in note.says for note in notes)
    assert all(note.level is Level.BROKEN for note in notes)


def test_a_seed_whose_secret_is_missing(tmp_path):
    needy = {**CLASS, "seed": {"secrets": ["missing.yaml"]}}

    says, do = complaint(seen(classes, paths=paths(tmp_path, {"classes": [needy]})))

    assert "missing.yaml" in says
    assert str(tmp_path / "secrets") in do


@pytest.mark.parametrize(("public", "words"), [(False, "talos.config.early"), (True, "")])
def test_it_says_how_talos_nodes_come_to_trust_fleetd(tmp_path, public, words):
    node = {**CLASS, "family": "talos", "seed": {"template": "talos-worker.yaml"}}
    machine = {"certificate": tmp_path / "c", "key": tmp_path / "k"} if public else {}

    notes = seen(classes, paths=paths(tmp_path, {"classes": [node]}), machine=machine)

    (said,) = [note for note in notes if "Talos" in note.says]
    assert said.level is (Level.GOOD if public else Level.WARNS)
    assert words in said.do


def test_an_image_that_the_server_does_not_have(tmp_path):
    with serving(Pretended()) as images:
        gone = {**CLASS, "image": {**CLASS["image"], "url": f"{images.url}/x"}}
        says, _ = complaint(seen(classes, paths=paths(tmp_path, {"classes": [gone]})))

    assert "answers 404" in says


def test_workflows_that_are_missing(tmp_path):
    (tmp_path / "empty").mkdir()

    notes = seen(workflows, paths=paths(tmp_path, {"classes": [CLASS]}, workflows=tmp_path / "empty"))

    assert {note.says.split()[1] for note in notes} == {"attest", "wipe", "provision-alpine-image"}


def test_the_workflows_of_this_version_are_good(tmp_path):
    notes = seen(workflows, paths=paths(tmp_path, {"classes": [CLASS]}))

    assert [note.level for note in notes] == [Level.GOOD]


def test_no_root_of_any_manufacturer(tmp_path):
    says, do = complaint(seen(roots, paths={"roots": tmp_path}))

    assert "no root" in says
    assert "ek-roots import" in do


# --- all of it


def test_a_part_that_cannot_be_examined_hides_no_other(monkeypatch):
    def ailing(_):
        raise RuntimeError("boom")
        yield

    monkeypatch.setattr("fleetd.doctor.examine.PROBES", (ailing, listener))

    parts = [note.part for note in examine(Settings())]

    assert parts == ["ailing", "machine listener"]


def test_a_part_that_hangs_does_not_hang_the_doctor(token):
    # A socket that accepts and says nothing.
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        says, _ = complaint(seen(netbox, netbox={"url": url, "token_file": token, "timeout": 0.5}))

    assert "cannot be reached" in says
