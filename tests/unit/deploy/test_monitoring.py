"""Rules, dashboard and runbooks speak of the metrics that fleetd exposes, and each alert was seen to fire and to be quiet."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fleetd.metrics.names import METRICS

CHECKOUT = Path(__file__).resolve().parents[3]
PROMETHEUS = CHECKOUT / "deploy" / "prometheus"
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
SERIES = {series for metric in METRICS for series in metric.series}
PROMTOOL = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")


def alerts() -> list[dict]:
    (group,) = yaml.safe_load((PROMETHEUS / "fleetd-rules.yaml").read_text())["groups"]
    return group["rules"]


def queries() -> list[str]:
    panels = json.loads((CHECKOUT / "deploy" / "grafana" / "fleetd.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def used(expressions: list[str]) -> set[str]:
    return set(re.findall(r"\bfleetd_[a-z_]+", " ".join(expressions)))


def test_rules_use_metrics_that_exist():
    assert used([alert["expr"] for alert in alerts()]) <= SERIES


def test_the_dashboard_uses_metrics_that_exist_and_shows_nearly_all():
    shown = used(queries())

    assert shown <= SERIES
    missing = {metric.name for metric in METRICS if not shown & set(metric.series)}
    assert missing == {
        "fleetd_crl_next_update_timestamp_seconds",
        "fleetd_declarations_malformed",
        "fleetd_issuance_paused",
    }


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_has_summary_impact_severity_and_a_runbook_that_is_there(alert):
    notes = alert["annotations"]

    assert notes["summary"]
    assert notes["impact"]
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    page = (CHECKOUT / notes["runbook_url"]).read_text()
    assert page.startswith(f"# {alert['alert']}\n")
    for section in ("## What it means", "## Where to look", "## What to do"):
        assert section in page


def test_every_runbook_belongs_to_an_alert():
    assert {file.name for file in RUNBOOKS.glob("fleetd-*.md")} == {
        Path(alert["annotations"]["runbook_url"]).name for alert in alerts()
    }


def test_every_alert_is_tested_firing_and_quiet():
    tests = yaml.safe_load((PROMETHEUS / "fleetd-rules-test.yaml").read_text())["tests"]
    seen = {(test["name"], bool(test["promql_expr_test"][0]["exp_samples"])) for test in tests}

    wanted = {(f"{alert['alert']} {what}", what == "fires") for alert in alerts() for what in ("fires", "is quiet")}
    assert seen == wanted


@PROMTOOL
@pytest.mark.parametrize(
    "command", [("check", "rules", "fleetd-rules.yaml"), ("test", "rules", "fleetd-rules-test.yaml")]
)
def test_promtool_agrees(command):
    done = subprocess.run(["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
