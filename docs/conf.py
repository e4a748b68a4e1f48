"""The documentation site: Sphinx over Markdown. `make docs` builds it; pages are found by their folder."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import generate  # noqa: E402

project = "netbox-fleet"
author = "The netbox-fleet authors"
copyright = author  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "netbox-fleet"
# Nothing is fetched while building: a page that names a site does not make it a dependency.
intersphinx_mapping: dict[str, object] = {}

generate.write(HERE / "reference" / "generated")
