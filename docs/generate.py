"""Reference pages made from the code at each build: commands, findings, metrics, the machine listener's HTTP interface."""

import json
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
import typer

from fleetd.cli import program
from fleetd.core.findings import catalogue
from fleetd.http.machine import MachineParts, machine_app
from fleetd.metrics.names import METRICS


def write(folder: Path) -> None:
    """Write all pages into the folder; a page that would not change is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    document = openapi()
    pages = {
        "cli.md": commands_page(),
        "findings.md": findings_page(),
        "metrics.md": metrics_page(),
        "http.md": http_page(document),
        "openapi.json": json.dumps(document, indent=1, sort_keys=True) + "\n",
    }
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def cell(text: str) -> str:
    """Return text as it stands in a cell of a table."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


def paragraph(text: str) -> str:
    """Return the first paragraph of a docstring."""
    return cleandoc(text).split("\n\n")[0]


def commands_page() -> str:
    """Return every command with its options."""
    lines = [
        "# Commands of fleetd",
        "",
        "`--json` prints JSON where it is offered; exit status 2 means wrong usage or configuration.",
    ]
    for path, command in _commands(typer.main.get_command(program()), ("fleetd",)):
        lines += ["", f"## `{' '.join(path)}`", "", cleandoc(command.help or "")]
        parameters = [each for each in command.params if each.name != "help"]
        if parameters:
            lines += ["", "| | |", "| --- | --- |"]
            lines += [f"| `{_usage(each)}` | {cell(getattr(each, 'help', '') or '')} |" for each in parameters]
    return "\n".join(lines) + "\n"


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name in sorted(inner):
        yield from _commands(inner[name], (*path, name))


def _usage(parameter: click.Parameter) -> str:
    if parameter.param_type_name == "argument":
        return (parameter.name or "").upper()
    return ", ".join((*parameter.opts, *parameter.secondary_opts))


def findings_page() -> str:
    """Return every finding: what it is called, what it does, what it means."""
    lines = [
        "# Findings",
        "",
        "What fleetd tells an owner about a machine, in NetBox and in its answers. The page of the machine has the sentence",
        "with its values, and the next step.",
        "",
        "| code | weight | meaning |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| `{code}` | {kind.severity.value} | {cell(paragraph(kind.__doc__ or ''))} |"
        for code, kind in catalogue().items()
    ]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Return every metric with its labels."""
    lines = [
        "# Metrics",
        "",
        "Exposed by the inside listener at `/metrics`, and printed by `fleetd metrics`. They are computed from rows when",
        "they are asked for, so every process says the same. Histograms are of runs that ended.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        shown = metric.series[0] if metric.kind == "counter" else metric.name
        lines.append(f"| `{shown}` | {metric.kind.value} | {labels} | {cell(metric.help)} |")
    return "\n".join(lines) + "\n"


def openapi() -> dict[str, Any]:
    """Return the machine listener's OpenAPI document."""
    nothing: Any = None
    document: dict[str, Any] = machine_app(MachineParts(nothing, lambda *_: None)).openapi()
    return document


def http_page(document: dict[str, Any]) -> str:
    """Return every call of the machine listener."""
    lines = [
        "# HTTP calls of machines",
        "",
        "The document itself: [openapi.json](openapi.json). How the messages are signed and sealed:",
        "[machine API](../machine-api.md).",
        "",
        "| call | body | answers | |",
        "| --- | --- | --- | --- |",
    ]
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            body = content.get("application/json", {}).get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
            answers = ", ".join(sorted(operation.get("responses", {})))
            words = cell(operation.get("description", operation.get("summary", "")))
            lines.append(f"| `{method.upper()} {path}` | {body} | {answers} | {words} |")
    return "\n".join(lines) + "\n"
