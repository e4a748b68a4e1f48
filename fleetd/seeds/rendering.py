"""Rendering a seed for one machine in the form that its family reads."""

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateError
from jsonschema import Draft202012Validator

from fleetd.core.classes import MachineClass
from fleetd.core.names import Family
from fleetd.core.seed import SEED_SCHEMA, SeedInputs, seed_document, template_values
from fleetd.secret_files import SecretFileError
from fleetd.seeds import talos
from fleetd.seeds.secrets import secret_values
from fleetd.seeds.talos import REDACTED
from fleetd.seeds.templates import SeedError, environment, render

NOCLOUD_REQUIRED = ("user-data", "meta-data")
NOCLOUD_OPTIONAL = ("network-config", "vendor-data")


@dataclass(frozen=True, slots=True)
class SeedRenderer:
    """Renders from the owner's template and secret directories; holds nothing between calls."""

    templates: Path
    secrets: Path

    def problem(self, machine_class: MachineClass) -> str:
        """Say why no seed of this class can be rendered, or nothing: asked before anything is erased."""
        try:
            secrets = secret_values(self.secrets, machine_class.seed.secrets)
            if machine_class.family is Family.TALOS:
                _bundles(secrets)
            self._check_templates(machine_class)
        except (SecretFileError, SeedError) as error:
            return str(error)
        return ""

    def rehearse(self, inputs: SeedInputs) -> str:
        """Say why this machine's seed cannot be rendered, or nothing: a rendering whose result is thrown away."""
        problem = self.problem(inputs.machine_class)
        if problem:
            return problem
        try:
            self.render(inputs)
        except ValueError as error:
            return str(error)
        return ""

    def render(self, inputs: SeedInputs) -> bytes:
        """Return the seed's bytes; equal inputs and files give equal bytes. Raises SeedError."""
        try:
            secrets = secret_values(self.secrets, inputs.machine_class.seed.secrets)
        except SecretFileError as error:
            raise SeedError(str(error)) from None
        return self._render(inputs, secrets)

    def redacted(self, inputs: SeedInputs) -> bytes:
        """Return what the machine would get with every secret hidden. Raises SeedError."""
        return self._render(inputs, dict.fromkeys(inputs.machine_class.seed.secrets, REDACTED))

    def _render(self, inputs: SeedInputs, secrets: dict[str, str]) -> bytes:
        match inputs.machine_class.family:
            case Family.CLOUD_INIT_NOCLOUD:
                return self._nocloud(inputs, secrets)
            case Family.TALOS:
                return self._talos(inputs, secrets)
            case _:
                return _seed_json(inputs, secrets)

    def _nocloud(self, inputs: SeedInputs, secrets: dict[str, str]) -> bytes:
        values = template_values(inputs, secrets)
        folder = inputs.machine_class.seed.template
        files = {name: render(self.templates, f"{folder}/{name}", values) for name in self._nocloud_files(folder)}
        for name, text in files.items():
            _parse_yaml(f"{folder}/{name}", text)
        if not files["user-data"].startswith("#cloud-config\n"):
            raise SeedError(f"template {folder}/user-data: does not begin with #cloud-config")
        return _tar(files)

    def _talos(self, inputs: SeedInputs, secrets: dict[str, str]) -> bytes:
        rules = inputs.machine_class.seed
        values = {**template_values(inputs, secrets), "bundle": _bundles(secrets)}
        documents = talos.parsed(rules.template, render(self.templates, rules.template, values))
        documents = talos.patched(documents, rules.values.get("patches", []))
        talos.check(documents)
        return talos.dumped(documents)

    def _nocloud_files(self, folder: str) -> list[str]:
        optional = [name for name in NOCLOUD_OPTIONAL if (self.templates / folder / name).is_file()]
        return [*NOCLOUD_REQUIRED, *optional]

    def _check_templates(self, machine_class: MachineClass) -> None:
        name = machine_class.seed.template
        if machine_class.family in {Family.NIXOS_IMAGE, Family.ALPINE_IMAGE}:
            return
        nocloud = machine_class.family is Family.CLOUD_INIT_NOCLOUD
        wanted = [f"{name}/{part}" for part in self._nocloud_files(name)] if nocloud else [name]
        for template in wanted:
            try:
                environment(self.templates).get_template(template)
            except (TemplateError, OSError) as error:
                raise SeedError(f"template {template}: {error}"[:500]) from None


def _seed_json(inputs: SeedInputs, secrets: dict[str, str]) -> bytes:
    document = seed_document(inputs, secrets)
    wrong = next(Draft202012Validator(SEED_SCHEMA).iter_errors(document), None)
    if wrong is not None:
        raise SeedError(f"the seed is not valid at {wrong.json_path}")
    return json.dumps(document, ensure_ascii=True, indent=1).encode()


def _bundles(secrets: dict[str, str]) -> dict[str, Any]:
    """Return the secrets that are Talos bundles, by name; a hidden one keeps its shape. Raises SeedError."""
    named = {name: text for name, text in secrets.items() if name.endswith((".yaml", ".yml"))}
    return {
        name: talos.redacted_bundle() if text == REDACTED else talos.bundle(name, text) for name, text in named.items()
    }


def _parse_yaml(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may be a secret.
        raise SeedError(f"{name}: not valid YAML ({type(error).__name__})") from None


def _tar(files: dict[str, str]) -> bytes:
    """Return a tar of the files, 0600 root, without a time: equal content gives equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
