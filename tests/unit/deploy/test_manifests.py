"""Manifests and the compose file hold against the schemas of those who read them; containers run without rights, and start commands that exist."""

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema import Draft202012Validator
from typer.main import get_command

from fleet_machine.__main__ import parser
from fleetd.cli import program

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
KUSTOMIZATION = DEPLOY / "kubernetes" / "kustomization.yaml"
COMPOSE = DEPLOY / "container" / "compose.yaml"
PRIVILEGED = {"fleet-boot-check"}
"""It opens the TPM of its host."""


def manifests() -> list[dict]:
    files = [file for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if file != KUSTOMIZATION]
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def workloads() -> list[dict]:
    return [each for each in manifests() if each["kind"] in {"Deployment", "DaemonSet", "Job"}]


def containers() -> list[dict]:
    pods = [each["spec"]["template"]["spec"] for each in workloads()]
    return [each for pod in pods for each in [*pod.get("initContainers", []), *pod["containers"]]]


def services() -> dict[str, dict]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


def parsed_by_fleetd(words: list[str]) -> None:
    """Parse the words as `fleetd` does when it is called with them; nothing is run."""
    every = get_command(program())
    context = every.make_context("fleetd", list(words))
    name, command, rest = every.resolve_command(context, list(words))
    command.make_context(name, rest, parent=context)


def parsed_by_fleet_machine(words: list[str]) -> None:
    parser().parse_args(words)


PARSE = {"fleetd": parsed_by_fleetd, "fleet-machine": parsed_by_fleet_machine}
"""Whose image is started with its arguments: what its ENTRYPOINT does with them."""


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


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["name"])
def test_a_container_starts_a_command_that_exists(container):
    if "command" not in container:
        PARSE[container["image"]](container["args"])
        return
    assert container["command"] == ["/bin/sh", "-ec"]
    (line,) = container["args"]
    started = re.findall(r"python3 -m fleet_machine ([^;&|]+)", line)
    assert started
    for words in started:
        parsed_by_fleet_machine(words.split())


@pytest.mark.parametrize("words", [["no-such-command"], ["serve", "--no-such-option"], []])
def test_a_command_that_does_not_exist_would_show(words):
    for parse in PARSE.values():
        with pytest.raises((Exception, SystemExit)):
            parse(words)


def test_the_images_start_what_the_arguments_are_parsed_for():
    entries = {
        name: (DEPLOY / folder / "Containerfile").read_text()
        for name, folder in (("fleetd", "container"), ("fleet-machine", "hookos"))
    }

    assert 'ENTRYPOINT ["/opt/fleetd/bin/fleetd"]' in entries["fleetd"]
    assert 'ENTRYPOINT ["/usr/bin/python3", "-m", "fleet_machine"]' in entries["fleet-machine"]
    parsed_by_fleetd(yaml.safe_load(re.search(r"^CMD (.*)$", entries["fleetd"], re.MULTILINE)[1]))


def test_the_compose_file_is_what_the_compose_specification_says():
    Draft202012Validator(get_builtin_schema("vendor.compose-spec")).validate(yaml.safe_load(COMPOSE.read_text()))


def test_the_compose_file_names_only_what_it_holds():
    whole = yaml.safe_load(COMPOSE.read_text())

    for service in services().values():
        assert set(service.get("depends_on", {})) <= set(whole["services"])
        assert set(service.get("secrets", [])) <= set(whole["secrets"])
        sources = {mount.split(":")[0] for mount in service.get("volumes", [])}
        assert {source for source in sources if not source.startswith(".")} <= set(whole["volumes"])


def test_the_compose_file_starts_commands_that_exist_without_rights():
    ours = {name: service for name, service in services().items() if service["image"] == "fleetd"}

    assert set(ours) == {"migrate", "serve", "worker", "beat", "watch"}
    for service in ours.values():
        parsed_by_fleetd(service["command"])
        assert "entrypoint" not in service
        assert service["read_only"]
        assert service["user"] != "0:0"
        assert service["cap_drop"] == ["ALL"]


def test_the_commands_that_the_comments_tell_to_run_exist():
    told = re.findall(r"`docker compose run --rm serve ([^`]+)`", COMPOSE.read_text())

    assert told
    for words in told:
        parsed_by_fleetd(words.split())


def test_the_image_runs_without_rights():
    lines = (DEPLOY / "container" / "Containerfile").read_text().splitlines()

    assert "USER 65532:65532" in lines
    assert "FROM scratch" in lines
