"""`fleetd inspect ek` and `fleetd inspect certificate`: what a certificate says and where its path ends."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fleetd.cli.evidence_files import read_evidence
from fleetd.cli.terminal import verdict
from fleetd.core.attestation.certificate import Certificate, extract_certificate, parse_certificate
from fleetd.core.attestation.chain import find_path
from fleetd.core.attestation.endorsement import judge_certificate_alone
from fleetd.core.attestation.roots import TrustStore, admitted
from fleetd.core.attestation.structures import MalformedStructure
from fleetd.core.findings import Finding, refuses
from fleetd.ek_roots import pins, read_certificates

REFUSED = 1
UNREADABLE = 2

Files = Annotated[list[Path], typer.Argument(help="Certificates: DER, PEM, as read from NV, or Intel's JSON.")]
Roots = Annotated[Path | None, typer.Option(help="Certificates in this directory are trusted for this call.")]
Intermediates = Annotated[Path | None, typer.Option(help="Certificates in this directory only link.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON list, one object a file.")]
Judge = Callable[[Certificate, TrustStore], tuple[tuple[Certificate, ...], tuple[Finding, ...]]]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the `inspect` group."""
    app.command("ek")(inspect_ek)
    app.command("certificate")(inspect_certificate)


def inspect_ek(
    files: Files, roots: Roots = None, intermediates: Intermediates = None, *, as_json: AsJson = False
) -> None:
    """Judge EK certificates by their profile and their chain.

    Exit status: 0 all accepted, 1 some refused, 2 unreadable input.
    """
    now = datetime.now(UTC)
    _run(
        files,
        _store(roots, intermediates),
        lambda certificate, store: judge_certificate_alone(certificate, store, now),
        as_json=as_json,
    )


def inspect_certificate(
    files: Files, roots: Roots = None, intermediates: Intermediates = None, *, as_json: AsJson = False
) -> None:
    """Find the path of any certificate, CA certificates included, without the EK's own rules.

    Exit status: 0 all accepted, 1 some refused, 2 unreadable input.
    """
    now = datetime.now(UTC)

    def judge(certificate: Certificate, store: TrustStore) -> tuple[tuple[Certificate, ...], tuple[Finding, ...]]:
        path = find_path(certificate, store, (), now)
        return path.certificates, path.findings

    _run(files, _store(roots, intermediates), judge, as_json=as_json)


def _store(roots: Path | None, intermediates: Path | None) -> TrustStore:
    """Return what is trusted for this call; of `--roots`, pinned ones count as a manufacturer's."""
    given, _ = read_certificates([roots]) if roots else ([], [])
    pinned, own = admitted(given, pins())
    links, _ = read_certificates([intermediates]) if intermediates else ([], [])
    return TrustStore.of(manufacturers=pinned, owners=own, links=links)


def _run(files: Iterable[Path], store: TrustStore, judge: Judge, *, as_json: bool) -> None:
    results: list[dict[str, Any]] = []
    unreadable = False
    for file in files:
        try:
            certificate = parse_certificate(extract_certificate(read_evidence(file)))
            results.append(_report(file, certificate, *judge(certificate, store)))
        except MalformedStructure as error:
            unreadable = True
            results.append(
                {
                    "file": str(file),
                    "key": None,
                    "certificate": None,
                    "chain": [],
                    "findings": [_unreadable(error)],
                    "accepted": False,
                }
            )
    if as_json:
        typer.echo(json.dumps(results, indent=1))
    else:
        _show(results)
    raise typer.Exit(UNREADABLE if unreadable else 0 if all(result["accepted"] for result in results) else REFUSED)


def _unreadable(error: MalformedStructure) -> dict[str, str]:
    return {
        "code": "certificate-malformed",
        "severity": "refuses",
        "message": f"The certificate cannot be read: {error}.",
    }


def _report(
    file: Path, certificate: Certificate, path: tuple[Certificate, ...], findings: tuple[Finding, ...]
) -> dict[str, Any]:
    shown = [
        {"code": finding.code, "severity": finding.severity.value, "message": finding.sentence()}
        for finding in findings
    ]
    return {
        "file": str(file),
        "key": {"spki_sha256": certificate.spki_fingerprint, "type": _key(certificate)},
        "certificate": {
            "sha256": certificate.fingerprint,
            "subject": str(certificate.subject),
            "issuer": str(certificate.issuer),
            "serial": certificate.serial.hex(),
            "not_before": certificate.not_before.isoformat(),
            "not_after": certificate.not_after.isoformat(),
            "tpm": certificate.tpm,
        },
        "chain": [{"subject": str(link.subject), "sha256": link.fingerprint} for link in path],
        "findings": shown,
        "accepted": not refuses(findings),
    }


def _key(certificate: Certificate) -> str:
    try:
        key = certificate.public_key
    except MalformedStructure:
        return "unusable"
    return getattr(getattr(key, "curve", None), "name", f"rsa-{key.key_size}")


def _show(results: list[dict[str, Any]]) -> None:
    console = Console(soft_wrap=True, markup=False)
    for result in results:
        table = Table(title=result["file"], title_justify="left", show_header=False)
        if result["certificate"]:
            table.add_row("subject", result["certificate"]["subject"])
            table.add_row("key", result["key"]["type"])
            table.add_row("TPM", " ".join(result["certificate"]["tpm"].values()))
            table.add_row(
                "in force", f"{result['certificate']['not_before'][:10]} to {result['certificate']['not_after'][:10]}"
            )
        for number, link in enumerate(result["chain"]):
            table.add_row(f"path {number}", link["subject"])
        for finding in result["findings"]:
            table.add_row(finding["severity"], finding["message"])
        table.add_row("verdict", verdict(accepted=result["accepted"]))
        console.print(table)
