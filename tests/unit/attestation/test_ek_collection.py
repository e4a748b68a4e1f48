"""Real EK, AK and CA certificates of TPM manufacturers give what their manifest expects."""

import json
from datetime import UTC, datetime

import pytest

from fleetd.core.attestation.certificate import extract_certificate, parse_certificate
from fleetd.core.attestation.chain import find_path
from fleetd.core.attestation.roots import Origin, TrustStore
from fleetd.core.attestation.x509_signature import is_signed_by
from tests.conftest import SHARED

FOLDER = SHARED / "data" / "ek"
ENTRIES = json.loads((FOLDER / "manifest.json").read_text())["files"] if FOLDER.exists() else []
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def read(name):
    return parse_certificate(extract_certificate((FOLDER / name).read_bytes()))


def here(entry):
    return [issuer["name"] for issuer in entry["issued_by"] if issuer["set"] == "here"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_a_published_certificate_is_read_as_its_manifest_says(entry):
    certificate = read(entry["name"])

    assert certificate.fingerprint == entry["der_sha256"]
    assert certificate.spki_fingerprint == entry["spki_sha256"]
    assert list(certificate.extended_key_usage) == entry["eku"]
    assert certificate.public_key


@pytest.mark.parametrize("entry", [e for e in ENTRIES if here(e)], ids=lambda entry: entry["name"])
def test_a_published_certificate_is_signed_by_each_of_its_issuers(entry):
    certificate = read(entry["name"])

    assert all(is_signed_by(certificate, read(issuer)) for issuer in here(entry))


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e["kind"] == "ek" and here(e)], ids=lambda entry: entry["name"]
)
def test_a_published_ek_certificate_reaches_its_issuer_as_root(entry):
    store = TrustStore.of(manufacturers=[read(issuer) for issuer in here(entry)])

    path = find_path(read(entry["name"]), store, (), NOW)

    assert path.origin is Origin.MANUFACTURER, path.findings


@pytest.mark.parametrize(
    "entry",
    [e for e in ENTRIES if e["kind"] in {"ek", "ak"} and not e["expected"].startswith("accept")],
    ids=lambda e: e["name"],
)
def test_a_certificate_without_a_manufacturers_root_is_refused(entry):
    real = [read(e["name"]) for e in ENTRIES if e["kind"] == "root" and e["expected"].startswith("accept")]
    links = [read(e["name"]) for e in ENTRIES if e["kind"] == "ica"]

    path = find_path(read(entry["name"]), TrustStore.of(manufacturers=real, links=links), (), NOW)

    assert path.origin is None
