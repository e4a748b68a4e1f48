"""The directory of CA certificates that the owner supplied: what may end a chain of an endorsement key, and what links.

`manufacturers/` holds certificates whose fingerprint is pinned in `data/ek-roots.toml`, `owner/` those that the owner
trusts without a pin, each with a file that says why, `links/` intermediates, `lists/` revocation lists.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from fleetd.core.attestation.certificate import Certificate, extract_certificate, parse_certificate
from fleetd.core.attestation.chain import find_path
from fleetd.core.attestation.revocation import MAX_LIST, RevocationList, parse_revocation_list
from fleetd.core.attestation.roots import Pin, TrustStore, admitted
from fleetd.core.attestation.structures import MalformedStructure

MANUFACTURERS: Final = "manufacturers"
OWNER: Final = "owner"
LINKS: Final = "links"
LISTS: Final = "lists"
_SUFFIXES: Final = frozenset({".der", ".pem", ".crt", ".cer", ".bin", ".json"})


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the certificates of an import; refused ones with the reason."""

    manufacturers: tuple[Certificate, ...]
    links: tuple[Certificate, ...]
    owner: tuple[Certificate, ...]
    refused: tuple[tuple[str, str], ...]


def pins() -> tuple[Pin, ...]:
    """Return the manufacturers' roots that the project knows."""
    listed = tomllib.loads(files("fleetd").joinpath("data/ek-roots.toml").read_text())["root"]
    return tuple(Pin(item["manufacturer"], item["name"], item["certificate"], item["spki"]) for item in listed)


def load_roots(directory: Path) -> TrustStore:
    """Return the store of the directory; files that cannot be read are left out, a missing directory is empty.

    A certificate under `manufacturers/` counts only while its pin is known.
    """
    pinned, _ = admitted(read_certificates([directory / MANUFACTURERS])[0], pins())
    return TrustStore.of(
        manufacturers=pinned,
        owners=read_certificates([directory / OWNER])[0],
        links=read_certificates([directory / LINKS])[0],
        lists=_read_lists(directory / LISTS),
    )


def read_certificates(places: Iterable[Path]) -> tuple[list[Certificate], list[tuple[str, str]]]:
    """Read every certificate of files and directories; return them, and the files that hold none with the reason."""
    found: list[Certificate] = []
    bad: list[tuple[str, str]] = []
    for file in _files(places):
        try:
            data = file.read_bytes()
            blocks = data.split(b"-----BEGIN CERTIFICATE-----")[1:]
            parts = [b"-----BEGIN CERTIFICATE-----" + block for block in blocks] or [data]
            found += [parse_certificate(extract_certificate(part)) for part in parts]
        except (OSError, MalformedStructure) as error:
            bad.append((str(file), str(error)))
    return found, bad


def import_certificates(directory: Path, places: Iterable[Path], now: datetime, trust: str = "") -> Imported:
    """Sort certificates into the directory: pinned roots, intermediates below them, and the owner's own.

    `trust` is the reason for trusting what is neither; without one that is refused.
    """
    certificates, bad = read_certificates(places)
    pinned, rest = admitted(certificates, pins())
    known = load_roots(directory)
    anchors = [certificate for certificate in known.certificates if certificate.spki_fingerprint in known.trusted]
    store = TrustStore.of(manufacturers=[*pinned, *anchors], links=[*known.certificates, *rest])
    links = [
        certificate for certificate in rest if certificate.is_ca and find_path(certificate, store, (), now).trusted
    ]
    others = [certificate for certificate in rest if certificate not in links]
    refused = [*bad]
    if not trust:
        refused += [
            (str(other.subject), f"not pinned, and no pinned root above it (SHA-256 {other.fingerprint})")
            for other in others
        ]
        others = []
    for folder, chosen in ((MANUFACTURERS, pinned), (LINKS, links), (OWNER, others)):
        for certificate in chosen:
            _keep(directory / folder, certificate, trust if folder == OWNER else "")
    return Imported(tuple(pinned), tuple(links), tuple(others), tuple(refused))


def _keep(folder: Path, certificate: Certificate, reason: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{certificate.fingerprint}.der").write_bytes(certificate.raw)
    if reason:
        (folder / f"{certificate.fingerprint}.txt").write_text(f"{certificate.subject}\n{reason}\n")


def _files(places: Iterable[Path]) -> Iterable[Path]:
    for place in places:
        if place.is_dir():
            yield from sorted(file for file in place.rglob("*") if file.is_file() and file.suffix.lower() in _SUFFIXES)
        elif place.exists():
            yield place


def _read_lists(folder: Path) -> list[RevocationList]:
    found = []
    for file in sorted(folder.glob("*.crl")) if folder.is_dir() else ():
        try:
            if file.stat().st_size <= MAX_LIST:
                found.append(parse_revocation_list(file.read_bytes()))
        except (OSError, MalformedStructure):
            continue
    return found
