"""`fleetd inspect quote`: what a quote says and whether it holds, with no service, database or configuration."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fleetd.cli.evidence_files import read_attest, read_pcrs, read_public, read_signature, unreadable
from fleetd.cli.inspect_log import REFUSED, show_findings
from fleetd.cli.terminal import verdict
from fleetd.core.attestation.attest import ATTEST_QUOTE, Attest, QuoteInfo, parse_attest, parse_quote_info
from fleetd.core.attestation.banks import PcrSelection, PcrValues
from fleetd.core.attestation.quote import RawQuote, VerifiedQuote, verify_quote
from fleetd.core.attestation.structures import MalformedStructure, PublicArea
from fleetd.core.findings.finding import Finding, refuses
from fleetd.core.findings.quote import ClockNotSafe, NotHeldAgainst, PcrValuesMissing, SignerMismatch


def add_to(app: typer.Typer) -> None:
    """Add the command to the `inspect` group."""
    app.command("quote")(inspect_quote)


def inspect_quote(
    attest: Annotated[Path, typer.Option(help="The TPMS_ATTEST.")],
    signature: Annotated[Path, typer.Option(help="The TPMT_SIGNATURE.")],
    public: Annotated[Path, typer.Option(help="The signing key: TPMT_PUBLIC, or a public key or certificate.")],
    nonce: Annotated[str | None, typer.Option(help="The expected extraData, in hexadecimal.")] = None,
    pcrs: Annotated[Path | None, typer.Option(help="The PCR values: JSON, tpm2_pcrread or tpm2_quote --pcr.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a quote: form, signature, signer, nonce and PCR values.

    Exit status: 0 accepted, 1 refused, 2 unreadable input.
    """
    raw = read_attest(attest)
    key, named = read_public(public)
    signed = read_signature(signature, key)
    try:
        expected = None if nonce is None else bytes.fromhex(nonce)
    except ValueError as error:
        raise unreadable(Path("--nonce"), "it is not hexadecimal") from error
    values = None if pcrs is None else read_pcrs(pcrs)
    report = report_of(raw, signed, key, named=named, nonce=expected, pcrs=values)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        _show(Console(markup=False), report)
    raise typer.Exit(0 if report["accepted"] else REFUSED)


def report_of(
    raw: bytes, signature: bytes, key: PublicArea, *, named: bool, nonce: bytes | None, pcrs: PcrValues | None
) -> dict[str, Any]:
    """Return the object that `--json` prints; what was not given is not checked, and the findings say so."""
    attest, info = _parsed(raw)
    asked = (attest.extra_data if attest else b"") if nonce is None else nonce
    selection = info.selection if info else PcrSelection(())
    verdict = verify_quote(RawQuote(raw), signature, key, asked, selection, pcrs or {})
    found: list[Finding] = [] if isinstance(verdict, VerifiedQuote) else list(verdict)
    if pcrs is None:
        found = [finding for finding in found if not isinstance(finding, PcrValuesMissing)]
    if not named:
        found = [finding for finding in found if not isinstance(finding, SignerMismatch)]
    missing = {"the nonce": nonce is None, "PCR values": pcrs is None, "the key's Name": not named}
    found += [NotHeldAgainst(what) for what, absent in missing.items() if absent]
    if attest is not None and not attest.clock.safe:
        found.append(ClockNotSafe())
    return {
        "attest": None if attest is None else _attest(attest, info),
        "key": {"type": key.type.name.lower(), "name": key.name().hex() if named else None},
        "findings": [finding.as_dict() for finding in found],
        "accepted": not refuses(found),
    }


def _parsed(raw: bytes) -> tuple[Attest | None, QuoteInfo | None]:
    try:
        attest = parse_attest(raw)
    except MalformedStructure:
        return None, None
    if attest.kind != ATTEST_QUOTE:
        return attest, None
    try:
        return attest, parse_quote_info(attest.body)
    except MalformedStructure:
        return attest, None


def _attest(attest: Attest, info: QuoteInfo | None) -> dict[str, Any]:
    return {
        "magic": f"{attest.magic:08x}",
        "type": f"0x{attest.kind:04x}",
        "qualified_signer": attest.qualified_signer.hex(),
        "extra_data": attest.extra_data.hex(),
        "clock": attest.clock.clock,
        "reset_count": attest.clock.reset_count,
        "restart_count": attest.clock.restart_count,
        "safe": attest.clock.safe,
        "firmware_version": f"{attest.firmware_version:016x}",
        "selection": {bank.value: list(indexes) for bank, indexes in info.selection.banks} if info else None,
        "pcr_digest": info.pcr_digest.hex() if info else None,
    }


def _show(console: Console, report: dict[str, Any]) -> None:
    table = Table(title="Quote", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (report["attest"] or {"quote": "cannot be read"}).items():
        table.add_row(name.replace("_", " "), str(value))
    table.add_row("key", f"{report['key']['type']} {report['key']['name'] or ''}")
    console.print(table)
    show_findings(console, report["findings"])
    console.print(verdict(accepted=report["accepted"]))
