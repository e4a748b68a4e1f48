"""Every form of TPM that real machines have comes from challenge to certificate, on a real software TPM."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import select

from fleet_machine.actions import run_action
from fleet_machine.runfolder import RunFolder
from fleet_machine.tpm import LakAlgorithm
from fleetd.core.attestation.certificate import extract_certificate, parse_certificate
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.attestation.structures import parse_public
from fleetd.core.classes import parse_classes
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.enrollments import EnrollmentRow
from tests.integration.http.conftest import a_class
from tests.integration.machine_meets_fleetd.setting import Listening, begin

pytestmark = pytest.mark.slow

RSA, P256, P384 = "rsa-2048", "p-256", "p-384"


class NarrowTpm:
    """A TPM that makes some kinds of keys only; what it makes, it makes in the software TPM."""

    def __init__(self, tpm, kinds, lak, *, certificates):
        self.tpm, self.kinds, self.algorithm, self.certificates = tpm, kinds, lak, certificates

    def __getattr__(self, name):
        return getattr(self.tpm, name)

    def endorsement_keys(self):
        keys = [key for key in self.tpm.endorsement_keys() if kind_of(key.public) in self.kinds]
        return tuple(key if self.certificates else replace(key, certificate=None) for key in keys)

    def lak(self, unique, algorithm, context):
        return self.tpm.lak(unique, algorithm or self.algorithm, context)


def kind_of(public):
    from fleetd.core.attestation.endorsement import key_type

    return key_type(parse_public(public))


def narrowed(machine, kinds, lak=LakAlgorithm.P256, *, certificates=True):
    @contextmanager
    def opened():
        with machine.tpm() as tpm:
            yield NarrowTpm(tpm, kinds, lak, certificates=certificates)

    return replace(machine, tpm=opened)


FORMS = [
    pytest.param({RSA}, LakAlgorithm.RSA2048, id="RSA only"),
    pytest.param({P256}, LakAlgorithm.P256, id="ECC only"),
    pytest.param({RSA, P256}, LakAlgorithm.P256, id="both"),
    pytest.param({P384}, LakAlgorithm.P384, id="P-384 only"),
    pytest.param({RSA, P256, P384}, LakAlgorithm.P384, id="all"),
]


@pytest.mark.parametrize("certificates", [True, False], ids=["certified", "bare"])
@pytest.mark.parametrize(("kinds", "lak"), FORMS)
def test_a_tpm_of_each_form_enrolls_with_and_without_certificates(service, fleetd, machine, kinds, lak, certificates):
    narrow = narrowed(machine, kinds, lak, certificates=certificates)
    run = begin(service, narrow)

    assert run_action("enroll", fleetd.environment(run), narrow) == 0, narrow.console.lines
    with service.sessions() as session:
        keys = session.scalars(select(EndorsementKeyRow)).all()
        enrolled = session.scalars(select(EnrollmentRow)).one()
    assert {key.key_type for key in keys} == kinds
    assert {key.machine_id for key in keys} == {7}
    assert enrolled.verified
    # The software TPM certifies its RSA and its P-384 key.
    assert {key.key_type for key in keys if key.certificate_sha256} == (kinds & {RSA, P384} if certificates else set())


@pytest.fixture
def strict(service, tmp_path, own_tpm):
    """fleetd whose class demands a certificate, and whose owner trusts the maker of the software TPM."""
    demanding = a_class(
        "lab-alpine",
        "alpine-image",
        attestation={"install": {"boot": "network-trusted"}, "ek_certificate": "required"},
    )
    ca = own_tpm.state.parent / "ca"
    files = [ca / "swtpm-localca-rootca-cert.pem", ca / "issuercert.pem"]
    owners = [parse_certificate(extract_certificate(file.read_bytes())) for file in files if file.exists()]
    running = Listening(
        service,
        tmp_path,
        classes=lambda: parse_classes({"classes": [demanding]}),
        roots=lambda: TrustStore.of(owners=owners),
    )
    yield running
    running.close()


@pytest.mark.parametrize("kinds", [{RSA}, {P384}, {RSA, P256}], ids=["RSA", "P-384", "one certified, one not"])
def test_a_certified_tpm_enrolls_where_the_class_demands_a_certificate(service, strict, machine, kinds):
    narrow = narrowed(machine, kinds)
    run = begin(service, narrow)

    assert run_action("enroll", strict.environment(run), narrow) == 0, narrow.console.lines
    assert RunFolder(narrow.run_folder).session().node_name == "node-7"


@pytest.mark.parametrize(
    ("kinds", "certificates"), [({P256}, True), ({RSA, P384}, False)], ids=["uncertified kind", "no certificates"]
)
def test_a_tpm_without_any_certificate_is_refused_where_the_class_demands_one(
    service, strict, machine, kinds, certificates
):
    narrow = narrowed(machine, kinds, certificates=certificates)
    run = begin(service, narrow)

    assert run_action("enroll", strict.environment(run, FLEET_PATIENCE="1"), narrow) == 1
    with service.sessions() as session:
        assert session.scalars(select(EnrollmentRow)).all() == []
    assert "has no certificate" in narrow.console or "certificate" in "".join(narrow.console.lines)
