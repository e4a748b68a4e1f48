"""Linting and naming of Templates."""

from pathlib import Path

import pytest

from fleetd.ports import RefusedError
from fleetd.tinkerbell.templates import Template, lint, read_template
from tests.conftest import CHECKOUT

GOOD = """\
version: "0.1"
name: attest
tasks:
  - name: attest
    worker: {{ .device_1 | quote }}
    actions:
      - name: enroll
        image: {{ .action_image | quote }}
        timeout: 60
"""


@pytest.mark.parametrize("path", sorted((CHECKOUT / "workflows").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_template_of_the_project_is_clean(path: Path) -> None:
    assert lint(path.read_text()) == ()


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("{{ .device_1 | quote }}", "{{ .device_1 }}", "must be hardwareMap keys that end in quote or toJson"),
        ("{{ .device_1 | quote }}", "{{ .hardware.spec.agentID | quote }}", "must be hardwareMap keys"),
        ("{{ .device_1 | quote }}", '"{{ index .Hardware.Disks 0 }}"', "must be hardwareMap keys"),
        ("    worker: {{ .device_1 | quote }}\n", "", "has no worker"),
        ("worker: {{ .device_1 | quote }}", 'worker: ""', "has no worker"),
        ("        timeout: 60\n", "", "has no timeout"),
        ("timeout: 60", "timeout: 0", "has no timeout"),
        ("timeout: 60", 'timeout: "60"', "has no timeout"),
        ("timeout: 60", "timeout: 60\n        on-failure: [x]", "Tinkerbell drops on-failure"),
        ("name: enroll", "name: " + "n" * 200, "1 to 199 characters"),
        ("        image: {{ .action_image | quote }}\n", "", "has no image"),
        ("name: attest\ntasks:", "name: attest\nother:", "has no tasks"),
        ("version:", "\tversion:", "it is no YAML"),
    ],
)
def test_the_lint_names_what_is_wrong(good: str, bad: str, words: str) -> None:
    assert good in GOOD
    problems = lint(GOOD.replace(good, bad, 1))
    assert any(words in problem for problem in problems), problems


def test_two_actions_of_one_name_are_found() -> None:
    action = GOOD[GOOD.index("      - name: enroll") :]
    assert lint(GOOD + action) == ("two actions are named enroll",)


def test_a_clean_template_has_nothing_to_tell() -> None:
    assert lint(GOOD) == ()


def test_the_name_of_a_template_follows_its_content() -> None:
    one, other = Template("attest", GOOD), Template("attest", GOOD + "# changed\n")
    assert one.name.startswith("attest-")
    assert len(one.name) == len("attest-") + 8
    assert one.name != other.name


def test_the_keys_of_a_template_are_those_it_quotes() -> None:
    volume = '      - {{ printf "/a/%s:/b.c/%s" .run .run | quote }}\n'
    data = GOOD + "    volumes:\n" + volume + "    environment: {A: {{ toJson .list }}}\n"
    assert Template("x", data).keys == {"device_1", "action_image", "run", "list"}


def test_a_template_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="cannot be read"):
        read_template(tmp_path, "attest")


def test_a_template_that_is_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "attest.yaml").write_text(GOOD.replace("timeout: 60", "timeout: 0"))
    with pytest.raises(RefusedError, match="has no timeout"):
        read_template(tmp_path, "attest")
