"""`fleetd nodes apply` as an owner runs it, against NetBox's own web server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fleet_lab.nodes_file import a_node, prepare
from fleet_lab.places import CHECKOUT
from fleet_lab.services.netbox import make_netbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def netbox(lab_places, postgres, valkey) -> Iterator:
    """NetBox with the plugin, served by gunicorn."""
    running = make_netbox(lab_places, postgres, valkey, database="nodes", redis=6)
    token = prepare(running)
    try:
        running.start(workers=1, queue=False)
        yield SimpleNamespace(url=running.url, token=token, shell=running.shell)
    finally:
        running.stop()
        postgres.drop("nodes")


@pytest.fixture
def apply(netbox, tmp_path):
    """Run `fleetd nodes apply` on these nodes; gives its exit status, what it printed, and what it complained of."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(netbox.token)

    def run(nodes, *options, name="nodes.yaml", token_file=token):
        file = tmp_path / name
        file.write_text(nodes if isinstance(nodes, str) else json.dumps({"nodes": nodes}))
        command = [sys.executable, "-m", "fleetd", "nodes", "apply", str(file), "--token-file", str(token_file)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("FLEETD_", "DJANGO_"))}
        done = subprocess.run(
            [*command, *options],
            env={**clean, "FLEETD_NETBOX__URL": netbox.url, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return SimpleNamespace(status=done.returncode, said=done.stdout, complained=done.stderr)

    return run


def test_an_owner_applies_changes_and_meets_a_conflict(netbox, apply):
    nodes = [a_node(number) for number in range(30)]

    planned = apply(nodes, "--dry-run")
    assert (planned.status, "30 new nodes; nothing was written" in planned.said) == (0, True), planned.complained

    first = apply(nodes)
    assert (first.status, "30 new nodes" in first.said) == (0, True), first.complained

    again = apply(nodes)
    assert (again.status, again.said) == (0, "no change (30 nodes)\n")

    netbox.shell("from dcim.models import Device; Device.objects.filter(name='node-00003').update(serial='BY-HAND')")
    nodes[3]["serial"] = "SN-new"
    nodes[4]["serial"] = "SN-other"
    conflict = apply(nodes)
    assert conflict.status == 1
    assert "nothing was applied: 1 conflicts, 0 problems" in conflict.said
    assert all(word in conflict.said for word in ("node-00003", "BY-HAND", "SN-new"))

    del nodes[3]["serial"]
    mended = apply(nodes, "--json")
    answer = json.loads(mended.said)
    assert [(row["node"], row["file"]) for row in answer["changes"]] == [("node-00004", "SN-other")]


def test_csv_is_applied_as_yaml_is(apply):
    text = "name,site,role,device_type,interfaces.eth0.mac\ncsv-1,lab,node,acme/box,52:54:00:ff:00:01\n"

    assert apply(text, name="nodes.csv").status == 0
    assert apply(text, name="nodes.csv").said == "no change (1 nodes)\n"


def test_a_wrong_file_a_wide_open_token_and_a_wrong_token_are_refused_before_anything(apply, tmp_path):
    wrong = apply("nodes: [{name: X}]")
    assert (wrong.status, "$.nodes[0].name" in wrong.complained) == (2, True)

    wide = tmp_path / "wide"
    wide.write_text("secret")
    wide.chmod(0o644)
    opened = apply([a_node(1)], token_file=wide)
    assert (opened.status, "chmod 0600" in opened.complained) == (2, True)

    wide.chmod(0o600)
    unknown = apply([a_node(1)], token_file=wide)
    assert (unknown.status, "token" in unknown.complained.lower()) == (2, True), unknown.complained
    assert "secret" not in unknown.complained
