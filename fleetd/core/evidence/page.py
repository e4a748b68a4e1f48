"""The records of a run as one page that a person can read and keep: plain HTML, nothing loaded from elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from fleetd.core.evidence.verify import Record

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse;width:100%;margin:1rem 0}"
    "th,td{border:1px solid #c9d1d9;padding:.35rem .6rem;text-align:left;vertical-align:top}"
    "th{background:#f3f5f7}pre{white-space:pre-wrap;word-break:break-all;background:#f3f5f7;padding:.6rem}"
    ".warn{border-left:.4rem solid #b35900;padding-left:.8rem}"
)


def page(run: str, records: Sequence[Record]) -> str:
    """Return the page; every text of a machine is escaped."""
    head = records[0].payload if records else {}
    machine = _mapping(head.get("machine"))
    title = f"Evidence of run {run}"
    rows = (
        ("Machine", f"{machine.get('node_name', '')} (NetBox machine {machine.get('id', '')})"),
        ("Device", f"{machine.get('device', '')}, serial number {machine.get('serial') or 'not declared'}"),
        ("Asked for", head.get("intent", "")),
        ("Asked by", head.get("requested_by", "")),
        ("Approved by", head.get("approved_by") or "nobody else"),
        ("Serial typed to confirm", head.get("confirmed_serial") or "none"),
    )
    parts = [f"<h1>{escape(title)}</h1>", _pairs(rows)]
    for record in records:
        parts += _erase(record) if record.kind == "erase" else _retirement(record)
    parts += ["<h2>How to check this</h2>", _HOW]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


_HOW = (
    "<p>Each record is signed by the service key of fleetd. This page is a reading of the records and proves nothing by"
    " itself: <code>fleetd evidence verify FILE --jwks record-keys.json</code> checks the records without any network."
    " Take the keys from <code>fleetd ca export</code>, not from whoever handed you the records.</p>"
)


def _erase(record: Record) -> Iterator[str]:
    disk, witness = _mapping(record.payload.get("disk")), _mapping(record.payload.get("witness"))
    yield f"<h2>Disk {_text(disk.get('serial'))}</h2>"
    yield _pairs(
        (
            ("Result", disk.get("result", "")),
            ("Method", f"{disk.get('method', '')} ({disk.get('depth', '')})"),
            ("Model", disk.get("model", "")),
            ("WWN", disk.get("wwn") or "none"),
            ("Size", f"{disk.get('size') or 0:,} bytes"),
            ("Begun and ended", f"{disk.get('start', '')} to {disk.get('end', '')}"),
            ("Places read back", disk.get("samples") or "the first and last MiB"),
            ("Methods that failed before", "; ".join(map(str, disk.get("tried") or ())) or "none"),
            ("Boot of the system that erased", _boot(witness)),
            ("Enrollment", witness.get("enrollment") or "unknown"),
            ("Signed", f"{record.payload.get('issued', '')} by key {record.kid}"),
        )
    )
    if disk.get("note"):
        yield f'<p class="warn">{_text(disk["note"])}</p>'
    yield _signed(record)


def _boot(witness: Mapping[str, Any]) -> str:
    if witness.get("boot_judged"):
        return "judged: it is one that the class allows"
    found = ", ".join(map(str, witness.get("findings") or ())) or "none"
    return f"not judged ({witness.get('boot_policy') or 'unknown'}; findings: {found})"


def _retirement(record: Record) -> Iterator[str]:
    payload = record.payload
    yield "<h2>Retirement</h2>"
    if payload.get("declared_lost_by"):
        yield f'<p class="warn">{_text(payload["declared_lost_by"])} declared the machine lost: its disks were not erased.</p>'
    yield "<h3>Disks</h3>"
    disks = [_mapping(disk) for disk in payload.get("disks") or ()]
    yield _table(
        ("serial", "model", "size", "declared", "what became of it"),
        (
            (
                disk.get("serial") or disk.get("name", ""),
                disk.get("model", ""),
                f"{disk.get('size') or 0:,}",
                "yes" if disk.get("declared") else "no",
                disk.get("state", ""),
            )
            for disk in disks
        ),
    )
    yield "<h3>Steps</h3>"
    steps = [_mapping(step) for step in payload.get("steps") or ()]
    yield _table(
        ("when", "step", "what was done"),
        ((step.get("at", ""), step.get("step", ""), step.get("message", "")) for step in steps),
    )
    yield f"<p>Signed {_text(payload.get('issued'))} by key {_text(record.kid)}.</p>"
    yield _signed(record)


def _signed(record: Record) -> str:
    return f"<details><summary>The signed record</summary><pre>{escape(record.jws)}</pre></details>"


def _pairs(rows: Sequence[tuple[str, Any]]) -> str:
    return (
        f"<table>{''.join(f'<tr><th>{escape(name)}</th><td>{_text(value)}</td></tr>' for name, value in rows)}</table>"
    )


def _table(names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(value: Any) -> str:
    return escape(str(value if value is not None else ""))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
