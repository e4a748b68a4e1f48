"""Kubernetes manifests hold against Kubernetes' own schemas; containers run without rights, and start commands that exist."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from fleetd.cli import program

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
KUSTOMIZATION = DEPLOY / "kubernetes" / "kustomization.yaml"
COMMANDS = set(get_command(program()).commands)
PRIVILEGED = {"fleet-boot-check"}
"""It opens the TPM of its host."""


def manifests() -> list[dict]:
    files = [file for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if file != KUSTOMIZATION]
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def workloads() -> list[dict]:
    return [each for each in manifests() if each["kind"] in {"Deployment", "DaemonSet", "Job"}]


def named(manifest: dict) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


@pytest.mark.parametrize("manifest", manifests(), ids=named)
def test_a_manifest_is_what_kubernetes_expects(manifest):
    kubernetes_validate.validate(manifest, "1.33", strict=True)


@pytest.mark.parametrize("manifest", workloads(), ids=named)
def test_a_container_runs_without_rights_and_cannot_write_its_root(manifest):
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    for each in (container, *pod.get("initContainers", [])):
        assert each["securityContext"]["readOnlyRootFilesystem"]
    if manifest["metadata"]["name"] in PRIVILEGED:
        assert not pod["automountServiceAccountToken"]
        return
    assert pod["securityContext"]["runAsNonRoot"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(container["args"]) <= COMMANDS


def test_the_boot_check_of_a_talos_node_reads_the_identity_that_the_nodes_own_configuration_writes():
    (daemon,) = (each for each in manifests() if each["kind"] == "DaemonSet")
    pod = daemon["spec"]["template"]["spec"]
    (identity,) = pod["initContainers"]
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    mounts = {mount["name"]: mount["mountPath"] for mount in identity["volumeMounts"]}

    assert hosts["identity"] == mounts["identity"] == "/etc/fleet"
    assert "/etc/fleet/seed.json /var/lib/fleet/seed.json" in identity["args"][0]


def test_the_kustomization_names_every_file_but_the_job():
    resources = set(yaml.safe_load(KUSTOMIZATION.read_text())["resources"])

    files = {file.name for file in (DEPLOY / "kubernetes").glob("*.yaml")}
    assert resources == files - {"kustomization.yaml", "migrate.yaml"}


def test_the_compose_file_starts_commands_that_exist_without_rights():
    services = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())["services"]
    ours = {name: service for name, service in services.items() if service["image"] == "fleetd"}

    assert set(ours) == {"migrate", "serve", "worker", "beat", "watch"}
    for service in ours.values():
        assert set(service["command"]) <= COMMANDS
        assert service["read_only"]
        assert service["user"] != "0:0"
        assert service["cap_drop"] == ["ALL"]


def test_the_image_runs_without_rights():
    lines = (DEPLOY / "container" / "Containerfile").read_text().splitlines()

    assert "USER 65532:65532" in lines
    assert "FROM scratch" in lines
