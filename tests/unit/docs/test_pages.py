"""What the pages say is so: commands and tests exist, and links lead somewhere."""

import re
from pathlib import Path

import click
import pytest
from typer.main import get_command

from fleetd.cli import program

CHECKOUT = Path(__file__).resolve().parents[3]
DOCS = CHECKOUT / "docs"
GENERATED = DOCS / "reference" / "generated"
PAGES = [
    file
    for file in sorted([*DOCS.rglob("*.md"), CHECKOUT / "README.md", CHECKOUT / "SECURITY.md"])
    if GENERATED not in file.parents and "_build" not in file.parts
]
THREATS = (DOCS / "explanation" / "threats.md").read_text()
NOT_STOPPED = "**not stopped**"


def name(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def rows() -> list[list[str]]:
    lines = [line for line in THREATS.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_a_threat_is_stopped_by_tests_that_exist_or_said_not_to_be(row):
    tests = re.findall(r"`(tests/[^`]+)`", row[3])

    assert tests or NOT_STOPPED in row[2]
    for test in tests:
        file, _, function = test.partition("::")
        text = (CHECKOUT / file).read_text()
        assert re.search(rf"^ *(?:async )?def {re.escape(function)}\(", text, re.MULTILINE), test


FLEETD = get_command(program())


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "machine-api"], ids=name)
def test_every_fleetd_command_on_a_page_exists(page):
    for words in re.findall(r"`fleetd ([a-z][a-z -]*)", page.read_text()):
        command: click.Command = FLEETD
        for word in words.split():
            inner = getattr(command, "commands", None)
            if not inner or word.startswith("-"):
                break
            assert word in inner, f"{name(page)}: fleetd {words}"
            command = inner[word]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_to_a_file_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        place = (page.parent / target).resolve()
        made = GENERATED in place.parents
        assert made or place.exists(), f"{name(page)}: {target}"
