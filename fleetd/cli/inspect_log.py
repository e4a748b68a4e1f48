"""`fleetd inspect eventlog`: what an event log says, with no service, database or configuration."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fleetd.cli.evidence_files import read_evidence, read_pcrs
from fleetd.cli.terminal import verdict
from fleetd.core.attestation.banks import STRENGTH, Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.facts import LogFacts
from fleetd.core.attestation.eventlog.framing import MAX_LOG, EventLog, LogTooLarge, parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import JudgedLog, Trust, assume_log, judge_log, replay_all
from fleetd.core.attestation.eventlog.views import view_event
from fleetd.core.attestation.judgement import log_findings
from fleetd.core.attestation.structures import MalformedStructure
from fleetd.core.findings.eventlog import BankNotLogged, LogMalformed, LogTooLong
from fleetd.core.findings.finding import Finding, refuses

REFUSED = 1


def add_to(app: typer.Typer) -> None:
    """Add the command to the `inspect` group."""
    app.command("eventlog")(inspect_eventlog)


def inspect_eventlog(
    file: Annotated[Path, typer.Argument(help="A binary event log, as in securityfs.")],
    pcrs: Annotated[Path | None, typer.Option(help="PCR values to hold against the log: JSON or tpm2_pcrread.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the events of a log, the PCRs they lead to, and what they say about the boot.

    Exit status: 0 accepted, 1 refused, 2 unreadable input.
    """
    raw = read_evidence(file)
    values = read_pcrs(pcrs) if pcrs is not None else None
    try:
        log = parse_log(raw)
    except MalformedStructure as error:
        problem: Finding = LogTooLong(MAX_LOG) if isinstance(error, LogTooLarge) else LogMalformed(str(error))
        _show_refused(problem, as_json=as_json)
        raise typer.Exit(REFUSED) from error
    judged, findings = _judged(log, values)
    facts = read_facts(judged)
    findings += log_findings(judged, facts, frozenset(_relied(judged)))
    report = report_of(log, judged, facts, findings)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        _show(Console(markup=False), report, judged)
    raise typer.Exit(0 if report["accepted"] else REFUSED)


def report_of(log: EventLog, judged: JudgedLog, facts: LogFacts, findings: list[Finding]) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    return {
        "format": log.format.value,
        "spec_version": log.spec_version,
        "windows": any(log.data(event) == b"WBCL" for event in log.events if event.kind == kinds.SEPARATOR),
        "bank": judged.bank.value,
        "pcrs": {
            bank.value: {str(pcr): value.hex() for pcr, value in sorted(values.items())}
            for bank, values in replay_all(log).items()
            if values
        },
        "trust": {} if judged.assumed else {str(pcr): trust.value for pcr, trust in judged.trust.items()},
        "events": [_header_event(log)] * (log.spec_version is not None) + _events(log, judged.bank),
        "secure_boot": facts.secure_boot,
        "facts": _facts(facts),
        "findings": [finding.as_dict() for finding in findings],
        "accepted": not refuses(findings),
    }


def _judged(log: EventLog, values: dict[Bank, dict[int, bytes]] | None) -> tuple[JudgedLog, list[Finding]]:
    """Judge the strongest bank that the log, and the values where there are some, have."""
    logged = [bank for bank, replayed in replay_all(log).items() if replayed] or list(log.banks) or [Bank.SHA1]
    if values is None:
        bank = min(logged, key=STRENGTH.index)
        return assume_log(log, bank), []
    both = [bank for bank in logged if bank in values]
    if not both:
        named = ", ".join(bank.value for bank in values) or "none"
        return assume_log(log, min(logged, key=STRENGTH.index)), [BankNotLogged(named, tuple(map(str, logged)))]
    bank = min(both, key=STRENGTH.index)
    return judge_log(log, bank, values[bank]), []


def _relied(judged: JudgedLog) -> set[int]:
    """With values at hand, the PCRs that the log speaks of must be explained; PCR 0 is often beyond any log."""
    if judged.assumed:
        return set()
    return {pcr for pcr, trust in judged.trust.items() if trust is Trust.UNEXPLAINED and 0 < pcr < 8}


def _header_event(log: EventLog) -> dict[str, Any]:
    return {
        "index": 0,
        "pcr": 1 if log.format.value == "ccel" else 0,
        "type": kinds.name_of(kinds.NO_ACTION),
        "digests": {},
        "vouched": False,
        "label": "Spec ID",
        "detail": f"version {log.spec_version}, banks {', '.join(log.banks)}",
    }


def _events(log: EventLog, bank: Bank) -> list[dict[str, Any]]:
    column = log.column(bank)
    first = 0 if log.spec_version is None else 1
    shown: list[dict[str, Any]] = []
    for index, event in enumerate(log.events, first):
        view = view_event(event, log.data(event), None if column is None else event.digests[column], bank)
        digests = {
            (declared.bank.value if declared.bank else f"0x{declared.algorithm:04x}"): digest.hex()
            for declared, digest in zip(log.declared, event.digests, strict=True)
            if digest is not None
        }
        shown.append(
            {
                "index": index,
                "pcr": event.pcr,
                "type": view.kind,
                "digests": digests,
                "vouched": view.vouched and event.kind != kinds.NO_ACTION,
                "label": view.label,
                "detail": view.detail,
            }
        )
    return shown


def _facts(facts: LogFacts) -> dict[str, Any]:
    return {
        "firmware_version": facts.firmware_version,
        "sbat_level": facts.sbat_level,
        "boot_attempts": facts.boot_attempts,
        "dma_protection_disabled": facts.dma_protection_disabled,
        "separators": {str(pcr): state.value for pcr, state in facts.separators.items()},
        "authorities": [
            {"variable": each.variable, "fingerprint": each.fingerprint, "certificate": each.certificate is not None}
            for each in facts.authorities
        ],
        "boot_loaders": [{"digest": each.digest.hex(), "source": each.source} for each in facts.boot_loaders],
        "command_lines": [
            {"pcr": each.pcr, "source": each.source.value, "text": each.text, "digest": each.digest.hex()}
            for each in facts.command_lines
        ],
        "uki_sections": [{"name": each.name, "digest": each.digest.hex()} for each in facts.uki_sections],
    }


def _show_refused(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        empty: dict[str, Any] = {"format": None, "pcrs": {}, "events": [], "secure_boot": None}
        typer.echo(json.dumps({**empty, "findings": [finding.as_dict()], "accepted": False}, indent=1))
    else:
        Console(markup=False).print(verdict(accepted=False), finding.sentence(), finding.next_step(), highlight=False)


def _show(console: Console, report: dict[str, Any], judged: JudgedLog) -> None:
    events = Table(title=f"Events ({report['format']}, digests of {report['bank']})", title_justify="left")
    for heading in ("#", "PCR", "type", "digest", "vouched", "what"):
        events.add_column(heading, overflow="fold" if heading == "what" else "ellipsis")
    for each in report["events"]:
        what = f"{each['label']}: {each['detail']}" if each["detail"] else each["label"]
        digest = each["digests"].get(report["bank"], "")[:16]
        mark = "yes" if each["vouched"] else "no"
        events.add_row(str(each["index"]), str(each["pcr"]), each["type"], digest, mark, what)
    console.print(events)
    values = Table(title="PCRs", title_justify="left")
    for heading in ("bank", "PCR", "value", "held against values"):
        values.add_column(heading, overflow="fold")
    for bank, replayed in report["pcrs"].items():
        for pcr, value in replayed.items():
            trust = report["trust"].get(pcr, "") if bank == judged.bank.value else ""
            values.add_row(bank, pcr, value, trust)
    console.print(values)
    state = {True: "on", False: "off", None: "not told"}[report["secure_boot"]]
    console.print(f"Secure Boot: {state}")
    show_findings(console, report["findings"])
    console.print(verdict(accepted=report["accepted"]))


def show_findings(console: Console, findings: list[dict[str, Any]]) -> None:
    """Print each finding with what to do next."""
    for each in findings:
        console.print(f"{each['severity']}: {each['message']} {each['next_step']}", highlight=False)
