"""What a Talos node is given: worker and joining control plane, checked by Talos's own schema where it is there."""

import json
import re
from dataclasses import replace

import pytest
import yaml

from fleet_lab.machine.talos_node import schema_errors
from fleet_machine.seed.delivered import delivered_state
from fleetd.core.classes import ClassesInvalidError
from fleetd.core.declaration import Address, Disk, Interface
from fleetd.core.names import DiskSerial, mac_address
from fleetd.seeds import talos
from fleetd.seeds.rendering import SeedRenderer
from fleetd.seeds.templates import SeedError
from tests.talos import SCHEMA, VALUES, a_bundle, pem
from tests.unit.seeds.test_seeds import CHECKOUT, HOSTILE, a_class, inputs

KINDS = ("worker", "controlplane")


@pytest.fixture
def renderer(tmp_path):
    secret = tmp_path / "talos-secrets.yaml"
    secret.touch(0o600)
    secret.write_text(yaml.safe_dump(a_bundle()))
    return SeedRenderer(CHECKOUT / "templates", tmp_path)


def talos_class(kind="worker", devid_folder=None, **values):
    seed = {"devid_folder": devid_folder} if devid_folder else {}
    return a_class(
        "talos", template=f"talos-{kind}.yaml", secrets=["talos-secrets.yaml"], values={**VALUES, **values}, **seed
    )


def documents(renderer, kind="worker", machine_class=None, **changes):
    content = renderer.render(inputs(machine_class=machine_class or talos_class(kind), **changes))
    return list(yaml.safe_load_all(content))


def of_kind(found, kind):
    return [document for document in found if document.get("kind") == kind]


def refused(found):
    """What Talos's published schema has against the documents."""
    definitions = json.loads(SCHEMA.read_text())["$defs"]
    return [error for document in found for error in schema_errors(definitions, document)]


@pytest.mark.parametrize("kind", KINDS)
def test_talos_own_schema_accepts_what_is_rendered(renderer, kind):
    if not SCHEMA.exists():
        pytest.skip("Talos's schema is not there")
    machine_class = talos_class(kind, devid_folder="/etc/fleet", installer="ghcr.io/siderolabs/installer:v1.14.0")
    interfaces = (
        Interface("eth0", (mac_address("52:54:00:00:00:07"),)),
        Interface("eth1", (mac_address("52:54:00:00:00:08"),)),
    )

    found = documents(renderer, machine_class=machine_class, interfaces=interfaces)

    assert refused(found) == []
    assert {"LinkConfig", "DHCPv4Config", "EtcFileConfig", "KubeClusterConfig"} <= {d.get("kind") for d in found}


def test_the_schema_check_itself_can_fail(renderer):
    if not SCHEMA.exists():
        pytest.skip("Talos's schema is not there")

    assert refused([{"version": "v1alpha1", "machine": {"type": "worker", "network": {}}}]) != []


def test_a_worker_joins_with_the_clusters_tokens_and_never_holds_a_ca_key(renderer):
    content = renderer.render(inputs(machine_class=talos_class()))

    found = list(yaml.safe_load_all(content))
    config, bundle = found[0], a_bundle()
    assert config["machine"]["token"] == bundle["trustdinfo"]["token"]
    assert config["machine"]["ca"] == {"crt": bundle["certs"]["os"]["crt"], "key": ""}
    assert config["cluster"]["token"] == bundle["secrets"]["bootstraptoken"]
    (authority,) = of_kind(found, "KubeAPIServerCAConfig")
    assert authority["acceptedCAs"] == [pem("CERTIFICATE", "k8s")]
    keys = [bundle["certs"][name]["key"] for name in bundle["certs"]]
    assert not any(key.encode() in content for key in keys)
    assert b"CA KEY" not in content


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_told_who_it_is_for_its_boot_check_and_no_secret_with_it(renderer, kind, tmp_path):
    given = replace(inputs(machine_class=talos_class(kind)), fleet_ca=pem("CERTIFICATE", "root"), certificates=None)
    (identity,) = of_kind(yaml.safe_load_all(renderer.render(given)), "EtcFileConfig")

    assert (identity["name"], identity["mode"]) == ("fleet/seed.json", 0o400)
    (tmp_path / "seed.json").write_text(identity["contents"])
    state = delivered_state(tmp_path)
    assert (state.machine, state.run, state.url) == (7, str(given.run), given.fleet_url)
    assert (state.ca, state.lak_unique) == (given.fleet_ca, given.lak_unique)
    told = json.loads(identity["contents"])
    assert (told["secrets"], told["values"]) == ({}, {})
    bundle = a_bundle()
    for secret in (bundle["trustdinfo"]["token"], bundle["secrets"]["bootstraptoken"], bundle["cluster"]["secret"]):
        assert secret not in identity["contents"]


def test_a_control_plane_carries_the_keys_of_the_clusters_cas(renderer):
    found = documents(renderer, "controlplane")

    bundle = a_bundle()
    assert found[0]["machine"]["type"] == "controlplane"
    assert found[0]["machine"]["ca"] == bundle["certs"]["os"]
    assert found[0]["cluster"]["etcd"]["ca"] == bundle["certs"]["etcd"]
    assert of_kind(found, "KubeAPIServerCAConfig")[0]["issuingCA"]["key"] == pem("CA KEY", "k8s")
    (account,) = of_kind(found, "KubeServiceAccountConfig")
    assert account["issuer"]["privateKey"] == pem("CA KEY", "k8sserviceaccount")


@pytest.mark.parametrize("kind", KINDS)
def test_who_the_node_is_comes_from_netbox(renderer, kind):
    found = documents(renderer, kind, addresses=(Address("192.0.2.7/24", "eth0", "", "192.0.2.1"),))

    assert of_kind(found, "HostnameConfig")[0]["hostname"] == "node-7"
    (alias,) = of_kind(found, "LinkAliasConfig")
    assert alias["selector"]["match"] == 'mac(link.permanent_addr) == "52:54:00:00:00:07"'
    (link,) = of_kind(found, "LinkConfig")
    assert (link["name"], link["addresses"]) == (alias["name"], [{"address": "192.0.2.7/24"}])
    assert link["routes"] == [{"gateway": "192.0.2.1"}]
    assert of_kind(found, "ResolverConfig")[0]["nameservers"] == [{"address": "192.0.2.53"}]


def test_an_interface_without_an_address_asks_dhcp(renderer):
    found = documents(renderer, addresses=())

    assert of_kind(found, "DHCPv4Config")[0]["name"] == of_kind(found, "LinkAliasConfig")[0]["name"]


@pytest.mark.parametrize("serial", ["lab0001", "s.1+x (y)", *HOSTILE])
def test_the_declared_disk_and_no_other_is_the_install_disk_whatever_its_serial(renderer, serial):
    found = documents(renderer, disk=Disk(DiskSerial(serial)))

    (install,) = of_kind(found, "UnattendedInstallConfig")
    expression = install["provisioning"]["diskSelector"]["match"]
    # A CEL string has JSON's escapes; RE2 and Python agree on this much.
    pattern = json.loads(expression.removeprefix("disk.serial.matches(").removesuffix(")"))
    assert re.match(pattern, serial.upper() if serial.isascii() else serial)
    assert not re.match(pattern, serial + "x")
    assert install["provisioning"]["wipe"] is False


def test_the_ldevid_is_on_the_node_where_the_class_asks_for_it(renderer):
    found = documents(renderer, machine_class=talos_class(devid_folder="/etc/fleet/devid"))
    files = {file["name"]: file for file in of_kind(found, "EtcFileConfig") if file["name"] != "fleet/seed.json"}

    assert {name: document["contents"] for name, document in files.items()} == {
        "fleet/devid/devid.pem": "LDEVIDCA",
        "fleet/devid/devid.pub.b64": "cHVibGlj",
        "fleet/devid/devid.priv.b64": "cHJpdmF0ZQ==",
    }
    assert {document["mode"] for document in files.values()} == {0o400}
    assert [file["name"] for file in of_kind(documents(renderer), "EtcFileConfig")] == ["fleet/seed.json"]


def test_talos_keeps_the_ldevid_below_etc_only():
    with pytest.raises(ClassesInvalidError, match="below /etc/"):
        talos_class(devid_folder="/var/lib/devid")


def test_patches_of_the_class_are_merged_as_talos_merges_them(renderer):
    patches = [
        {"machine": {"features": {"nodeAddressSortAlgorithm": "v2"}, "certSANs": ["b"]}},
        {"apiVersion": "v1alpha1", "kind": "KubeNetworkConfig", "podSubnets": ["10.9.0.0/16"]},
        {"apiVersion": "v1alpha1", "kind": "SysctlConfig", "params": {"vm.swappiness": "1"}},
        {"apiVersion": "v1alpha1", "kind": "KubePrismConfig", "$patch": "delete"},
    ]

    found = documents(renderer, machine_class=talos_class("controlplane", patches=patches, cert_sans=["a"]))

    assert found[0]["machine"]["features"] == {"diskQuotaSupport": True, "nodeAddressSortAlgorithm": "v2"}
    assert found[0]["machine"]["certSANs"] == ["a", "b"]
    assert of_kind(found, "KubeNetworkConfig")[0]["podSubnets"] == ["10.9.0.0/16"]
    assert of_kind(found, "SysctlConfig")[0]["params"] == {"vm.swappiness": "1"}
    assert of_kind(found, "KubePrismConfig") == []


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"machine": {"ca": {"key": "x"}}}, "machine.ca.key: a worker must not hold"),
        ({"machine": {"type": "init"}}, "machine.type"),
        ({"machine": {"token": ""}}, "machine.token: is missing"),
        ({"kind": "KubeClusterConfig", "endpoint": "http://k"}, "https address"),
        ({"kind": "Other"}, "Other: apiVersion"),
        ({"kind": "KubeAPIServerCAConfig", "issuingCA": {"key": "x"}}, "a worker must not hold"),
        ("text", "values.patches"),
    ],
)
def test_what_talos_would_refuse_is_refused_before_it_is_given(renderer, patch, words):
    with pytest.raises(SeedError, match=re.escape(words)):
        documents(renderer, machine_class=talos_class(patches=[patch]))


def test_a_control_plane_without_its_keys_is_refused(renderer):
    patch = {"cluster": {"etcd": {"$patch": "delete"}}}

    with pytest.raises(SeedError, match=r"cluster\.etcd\.ca\.key: a control plane needs it"):
        documents(renderer, machine_class=talos_class("controlplane", patches=[patch]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not valid YAML"),
        ("text", "not a Talos secrets bundle"),
        ("certs: {}", "has no cluster"),
        ("{certs: {}, cluster: {id: i}, secrets: {}, trustdinfo: {token: t}}", "secrets.bootstraptoken is missing"),
        (
            "{certs: {os: {crt: '#'}}, cluster: {id: i}, secrets: {bootstraptoken: b}, trustdinfo: {token: t}}",
            "certs.os is not base64",
        ),
    ],
)
def test_a_bundle_that_cannot_be_used_is_told_before_anything_is_erased(renderer, tmp_path, text, words):
    (tmp_path / "talos-secrets.yaml").write_text(text)

    assert words in renderer.problem(talos_class())


@pytest.mark.parametrize("kind", KINDS)
def test_a_redacted_configuration_has_its_shape_and_no_secret(renderer, kind):
    content = renderer.redacted(inputs(machine_class=talos_class(kind)))

    assert [d.get("kind") for d in yaml.safe_load_all(content)] == [d.get("kind") for d in documents(renderer, kind)]
    bundle = a_bundle()
    secrets = [*bundle["secrets"].values(), bundle["trustdinfo"]["token"], bundle["cluster"]["secret"], "CA KEY"]
    assert not any(secret.encode() in content for secret in secrets)
    assert talos.REDACTED.encode() in content


def test_equal_inputs_give_equal_bytes(renderer):
    assert renderer.render(inputs(machine_class=talos_class())) == renderer.render(inputs(machine_class=talos_class()))
