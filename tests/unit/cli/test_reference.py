"""What the documentation says of the configuration is what the code reads."""

from pathlib import Path

import pytest

from fleetd.cli import classes, nodes
from fleetd.cli.configuration import reference_page


def test_the_configuration_page_is_the_one_that_the_code_makes():
    page = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"

    assert page.read_text() == reference_page(), "run `fleetd config reference > docs/reference/configuration.md`"


@pytest.mark.parametrize(("name", "page"), [("classes", classes.reference_page), ("nodes-file", nodes.reference_page)])
def test_the_reference_of_a_file_is_the_one_that_its_schema_makes(name, page):
    path = Path(__file__).parents[3] / "docs" / "reference" / f"{name}.md"

    assert path.read_text() == page(), f"run the `reference` command of fleetd and put it into {path.name}"


def test_every_field_of_a_class_and_a_node_is_described():
    for line in (*classes.reference_page().splitlines(), *nodes.reference_page().splitlines()):
        if line.startswith("| `") and "| object |" not in line:
            assert not line.endswith("|  |"), line
