import base64
import io
import json
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fleetd.core.classes import parse_classes
from fleetd.core.declaration import Address, Declaration, Disk, Interface
from fleetd.core.names import DiskSerial, MachineId, Phase, RunId, mac_address
from fleetd.core.seed import SEED_SCHEMA, DeviceCertificates, SeedInputs, rehearsal
from fleetd.seeds.rendering import SeedRenderer
from fleetd.seeds.templates import SeedError, render

CHECKOUT = Path(__file__).resolve().parents[3]
HOSTILE = [
    '"',
    "'",
    "\n- x: y",
    "{{ 7*7 }}",
    "{% raw %}",
    "!!python/object:os.system",
    "&a *a",
    "\u2028",
    "é\U0001f600",
    ": #",
    "<script>",
]


def a_class(family="cloud-init-nocloud", **seed):
    entry = {
        "name": "node",
        "family": family,
        "image": {"url": "https://i", "sha256": "0" * 64, "size": 1024},
        "attestation": {"install": {"boot": "network-trusted"}},
        "seed": {"template": "cloud-init-basic", **seed},
    }
    return parse_classes({"classes": [entry]}).get("node")


def inputs(name="node-7", machine_class=None, **changes):
    values = {
        "machine": MachineId(7),
        "node_name": name,
        "machine_class": "node",
        "disk": Disk(DiskSerial("lab0001")),
        "extra_disks": (),
        "bmc_address": "",
        "bmc_secret": "",
        "phase": Phase.ACTIVE,
        "device_name": name,
        "device_status": "active",
        "device_serial": "SN7",
        "site": name,
        "role": "node",
        "primary_ip4": "192.0.2.7/24",
        "primary_ip6": "",
        "interfaces": (Interface("eth0", (mac_address("52:54:00:00:00:07"),)),),
        "addresses": (Address("192.0.2.7/24", "eth0", "", "192.0.2.1"),),
        "keys": (),
        "tags": (name,),
    }
    return SeedInputs(
        run=RunId(uuid.UUID(int=9)),
        declaration=Declaration(**{**values, **changes}),
        machine_class=machine_class or a_class(values={"dns": ["192.0.2.53"]}),
        fleet_url="https://fleetd.example.org",
        fleet_ca="PEM",
        fleet_keys="a2V5cw==",
        certificates=DeviceCertificates("LDEVID", "LAK", ("CA",)),
        devid_public=b"public",
        devid_private=b"private",
        lak_unique=b"u" * 32,
        lak_algorithm="p-256",
    )


@pytest.fixture
def renderer(tmp_path):
    return SeedRenderer(CHECKOUT / "templates", tmp_path)


def files_of(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        return {member.name: (member, files.extractfile(member).read()) for member in files}


def write(folder, text):
    (folder / "t").write_text(text)
    return "t"


def test_a_nocloud_seed_is_files_of_root_that_nobody_else_reads(renderer):
    files = files_of(renderer.render(inputs()))

    assert list(files) == ["user-data", "meta-data", "network-config", "vendor-data"]
    assert {(m.mode, m.uid, m.gid, m.mtime) for m, _ in files.values()} == {(0o600, 0, 0, 0)}


def test_equal_inputs_give_equal_bytes(renderer):
    assert renderer.render(inputs()) == renderer.render(inputs())


def test_each_run_has_an_instance_id_of_its_own(renderer):
    meta = yaml.safe_load(files_of(renderer.render(inputs()))["meta-data"][1])

    assert meta["instance-id"] == "node-7-000000000000"


def test_addresses_reach_the_network_config(renderer):
    network = yaml.safe_load(files_of(renderer.render(inputs()))["network-config"][1])

    assert network["ethernets"]["fleet0"] == {
        "match": {"macaddress": "52:54:00:00:00:07"},
        "addresses": ["192.0.2.7/24"],
        "routes": [{"to": "0.0.0.0/0", "via": "192.0.2.1"}],
        "nameservers": {"addresses": ["192.0.2.53"]},
    }


def test_a_machine_without_interfaces_still_gets_a_valid_network_config(renderer):
    network = files_of(renderer.render(inputs(interfaces=(), addresses=())))["network-config"][1]

    assert yaml.safe_load(network) == {"version": 2, "ethernets": {}}


def test_the_seed_document_follows_its_schema(renderer):
    content = renderer.render(inputs(machine_class=a_class("alpine-image")))

    Draft202012Validator(SEED_SCHEMA).validate(json.loads(content))


def test_the_published_schema_is_the_one_in_force():
    published = (CHECKOUT / "docs" / "reference" / "seed.schema.json").read_text()

    assert json.loads(published) == SEED_SCHEMA, "run: fleetd seeds schema > docs/reference/seed.schema.json"


def test_the_ldevid_is_in_a_nocloud_seed_where_the_class_asks_for_it(renderer):
    machine_class = a_class(devid_folder="/var/lib/spire")

    files = yaml.safe_load(files_of(renderer.render(inputs(machine_class=machine_class)))["user-data"][1])[
        "write_files"
    ]

    held = {file["path"]: base64.b64decode(file["content"]) for file in files if file.get("encoding") == "b64"}
    assert held == {
        "/var/lib/spire/devid.pem": b"LDEVIDCA",
        "/var/lib/spire/devid.pub": b"public",
        "/var/lib/spire/devid.priv": b"private",
    }
    assert {file["permissions"] for file in files} == {"0600"}


def test_the_seed_of_an_image_names_the_folder_for_the_ldevid(renderer):
    seed = json.loads(renderer.render(inputs(machine_class=a_class("nixos-image", devid_folder="/var/lib/spire"))))

    assert seed["devid_folder"] == "/var/lib/spire"
    assert (seed["certificates"]["ldevid"], seed["devid"]["private"]) == ("LDEVID", "cHJpdmF0ZQ==")


names = st.lists(
    st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=6
).map("".join)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names)
def test_hostile_names_come_out_as_data(renderer, name):
    files = files_of(renderer.render(inputs(name)))

    user_data = yaml.safe_load(files["user-data"][1])
    assert user_data["hostname"] == name
    assert json.loads(user_data["write_files"][0]["content"])["device"] == name
    assert yaml.safe_load(files["meta-data"][1])["local-hostname"] == name


def test_a_name_of_ten_kibibytes_comes_out_as_data(renderer):
    name = "".join(HOSTILE) * 200

    assert yaml.safe_load(files_of(renderer.render(inputs(name)))["user-data"][1])["hostname"] == name


def test_values_reach_the_output_only_as_json_or_yaml(tmp_path):
    for text in (
        "a: {{ x }}",
        'a: {{ "q" }}',
        "a: {{ x|tojson ~ x }}",
        "a: {{ x|tojson|replace('q', 'z') }}",
        "a: {{ x|tojson + x }}",
        "a: {{ (x|tojson)[1:-1] }}",
        "a: {{ x|tojson|lower }}",
        "a: {{ ('%s'|tojson) % x }}",
        "a: {{ ('{}'|tojson).format(x) }}",
        "a: {{ (''|tojson).join([x]) }}",
        "a: {% filter lower %}{{ x|tojson }}{% endfilter %}",
        "a: {% call x.lower() %}{% endcall %}",
        "a: {{ 1 }}",
    ):
        with pytest.raises(SeedError, match="without tojson or toyaml"):
            render(tmp_path, write(tmp_path, text), {"x": "q"})


def test_a_value_that_is_not_there_is_an_error(tmp_path):
    for text in ("{{ y|tojson }}", "{{ x.y|tojson }}", "{% if y.z %}{% endif %}", "{{ y|toyaml }}"):
        with pytest.raises(SeedError):
            render(tmp_path, write(tmp_path, text), {"x": {}})


def test_a_template_cannot_leave_its_directory_or_the_sandbox(tmp_path):
    (tmp_path.parent / "outside").write_text("secret")
    for text in (
        '{% include "../outside" %}',
        '{% include "/etc/passwd" %}',
        "{{ ().__class__.__mro__|tojson }}",
        "{{ x.append(1)|tojson }}",
        "{{ range(3)|list|tojson }}",
        "{{ cycler|tojson }}",
        "{{ x|attr('__class__')|tojson }}",
        "{% set _ = x.update({}) %}",
    ):
        with pytest.raises(SeedError):
            render(tmp_path, write(tmp_path, text), {"x": []})


@pytest.mark.parametrize("text", ["{{ ('a' * 10**12)|tojson }}", "{{ (10**10**9)|tojson }}", "{{ x|toyaml(10**15) }}"])
def test_a_template_cannot_ask_for_all_memory(tmp_path, text):
    with pytest.raises(SeedError):
        render(tmp_path, write(tmp_path, text), {"x": {"a": 1, "b": 2}})


def test_toyaml_keeps_its_place_in_the_document(tmp_path):
    text = render(tmp_path, write(tmp_path, "a:\n  {{ x|toyaml(2) }}\nb: 1\n"), {"x": {"k": ["l\nm", "!!x"], "n": {}}})

    assert yaml.safe_load(text) == {"a": {"k": ["l\nm", "!!x"], "n": {}}, "b": 1}


def test_errors_of_templates_hold_no_value(tmp_path):
    with pytest.raises(SeedError) as caught:
        render(tmp_path, write(tmp_path, "{{ (x + 1)|tojson }}"), {"x": "top-secret"})

    assert "top-secret" not in str(caught.value)


def test_secrets_come_from_closed_files_and_reach_the_seed(renderer, tmp_path):
    (tmp_path / "join").touch(0o600)
    (tmp_path / "join").write_text("s3cret\n")
    machine_class = a_class("alpine-image", secrets=["join"])

    assert renderer.problem(machine_class) == ""
    assert json.loads(renderer.render(inputs(machine_class=machine_class)))["secrets"] == {"join": "s3cret"}
    assert b"s3cret" not in renderer.redacted(inputs(machine_class=machine_class))


def test_every_missing_secret_and_template_is_told_before_anything_is_erased(renderer, tmp_path):
    (tmp_path / "open").write_text("x")
    (tmp_path / "open").chmod(0o644)

    problem = renderer.problem(a_class(secrets=["open", "gone"]))

    assert "open: mode 0644" in problem
    assert "gone: No such file" in problem
    assert "template nowhere/user-data" in renderer.problem(a_class(template="nowhere"))


def test_what_fails_for_this_machine_alone_is_told_before_anything_is_erased(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "meta-data").write_text("instance-id: {{ instance_id|tojson }}\n")
    (folder / "user-data").write_text("#cloud-config\nfqdn: {{ addresses[0].gateway|tojson }}\n")
    found = a_class(template="t")
    renderer = SeedRenderer(tmp_path, tmp_path)

    def told(**changes):
        return renderer.rehearse(rehearsal(inputs(**changes).declaration, found, "https://fleetd.example.org", "PEM"))

    assert renderer.problem(found) == ""
    assert told() == ""
    assert "template t/user-data" in told(addresses=())


def test_a_rehearsal_of_every_shipped_template_renders(renderer):
    for family in ("cloud-init-nocloud", "alpine-image", "nixos-image"):
        found = a_class(family, devid_folder="/etc/devid")

        assert renderer.rehearse(rehearsal(inputs().declaration, found, "https://fleetd.example.org", "PEM")) == ""


def test_cloud_inits_own_schema_accepts_the_user_data(renderer, tmp_path):
    if shutil.which("cloud-init") is None:
        pytest.skip("cloud-init is not installed")
    for name, (_, content) in files_of(renderer.render(inputs())).items():
        if name == "user-data":
            (tmp_path / name).write_bytes(content)
            done = subprocess.run(
                ["cloud-init", "schema", "--config-file", tmp_path / name], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
