"""The documentation site is built without a warning, and its references hold what the code holds."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleetd.core.findings import catalogue
from fleetd.metrics.names import METRICS

CHECKOUT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(CHECKOUT / "docs"),
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_on_the_site_and_reached_from_its_start(site):
    start = (site / "index.html").read_text()
    folders = ("tutorial", "how-to", "operations", "explanation", "reference", "runbooks")
    pages = [page for folder in folders for page in (CHECKOUT / "docs" / folder).rglob("*.md")]

    assert len(pages) > 30
    for page in pages:
        address = page.relative_to(CHECKOUT / "docs").with_suffix(".html")
        assert (site / address).exists()
        assert f'href="{address}"' in start


def test_every_finding_metric_and_command_is_in_the_reference(site):
    reference = site / "reference" / "generated"

    findings = (reference / "findings.html").read_text()
    assert all(f">{code}<" in findings for code in catalogue())
    metrics = (reference / "metrics.html").read_text()
    assert all(metric.name in metrics for metric in METRICS)
    commands = (reference / "cli.html").read_text()
    assert all(
        f'id="fleetd-{words}"' in commands for words in ("serve", "doctor", "audit-verify", "ca-init", "restore-hold")
    )


def test_every_call_of_machines_is_in_the_reference(site):
    calls = (site / "reference" / "generated" / "http.html").read_text()

    assert all(path in calls for path in ("/v1/challenges", "/v1/enrollments", "/v1/checks", "/v1/seeds/redeem"))
