"""What a machine is told when it enrolls, and who cannot stand in for it."""

import json
import uuid
from base64 import b64decode
from dataclasses import replace
from hashlib import sha256

import pytest
from sqlalchemy import func, select

from fleetd.app.runs import KEYS_CONTRADICT
from fleetd.core.attestation.transcript import lak_unique
from fleetd.core.declaration import DeclaredKey
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.store.certificates import CertificateRow
from fleetd.store.endorsement_keys import EndorsementKeyRow, waiting_count
from fleetd.store.enrollments import EnrollmentRow, InstallRow
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import ReportRow
from fleetd.store.runs import VerdictRow
from fleetd.store.tokens import UsedTokenRow
from tests.integration.http.machines import a_declaration, approved, pretend_ek, text
from tests.unit.attestation.evidence import ecc_key, ldevid_key
from tests.unit.attestation.maker import Ca, ek_certificate


def codes(answer):
    return {finding["code"] for finding in answer.json()["findings"]}


def test_a_machine_with_an_approved_key_is_verified_and_gets_certificates(service):
    machine, run = service.enrolled()

    assert machine.result["machine"] == 7
    assert machine.result["run"] == str(run)
    assert machine.result["node_name"] == "node-7"
    assert machine.result["certificates"]["ldevid"].startswith("-----BEGIN CERTIFICATE")
    assert service.woken == [7]


def test_a_passed_enrollment_binds_the_key_and_tells_the_run_and_netbox(service):
    machine, run = service.enrolled()

    with service.sessions() as session:
        assert session.get(EndorsementKeyRow, machine.ek.hash).machine_id == 7
        assert session.scalars(select(VerdictRow)).one().state == "passed"
        bodies = [row.body for row in session.scalars(select(ReportRow))]
    attestation = next(body["attestation"] for body in bodies if "attestation" in body)
    assert (attestation["passed"], attestation["run"]) == (True, str(run))
    assert {item["kind"] for body in bodies for item in body.get("certificates", [])} == {"ldevid", "lak"}


def test_a_challenge_writes_nothing(service):
    service.machine().challenge()

    with service.sessions() as session:
        for table in (UsedTokenRow, EndorsementKeyRow, EnrollmentRow):
            assert session.scalar(select(func.count()).select_from(table)) == 0


def test_the_unique_of_a_provision_comes_from_the_run(service):
    machine = service.machine()
    run = service.run(a_declaration(keys=(approved(machine.ek),)))

    challenge = machine.challenge()

    assert b64decode(challenge["lak_unique"]) == lak_unique(run)


def test_the_unique_of_an_unknown_machine_comes_from_its_key(service):
    machine = service.machine()

    challenge = machine.challenge()

    assert b64decode(challenge["lak_unique"]) == lak_unique(machine.ek.public.name())


def test_identical_bytes_get_the_identical_answer(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = machine.enrollment_body(machine.challenge())
    raw = json.dumps(body).encode()

    first = service.client.post("/v1/enrollments", content=raw)
    second = service.client.post("/v1/enrollments", content=raw)

    assert first.status_code == 200
    assert (second.status_code, second.content) == (first.status_code, first.content)


def test_other_bytes_under_a_used_token_are_refused(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    challenge = machine.challenge()
    machine.send_enrollment(machine.enrollment_body(challenge))

    answer = machine.send_enrollment(machine.enrollment_body(challenge, machine.facts(client="other")))

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:fleetd:problem:token-used"


def test_an_expired_token_is_refused(service):
    machine = service.machine()
    body = machine.enrollment_body(machine.challenge())
    service.clock.pass_by(minutes=5)

    answer = machine.send_enrollment(body)

    assert answer.status_code == 410


def test_a_token_that_was_touched_is_refused(service):
    machine = service.machine()
    body = machine.enrollment_body(machine.challenge())
    token = body["token"]
    body["token"] = token[:-1] + ("A" if token[-1] != "A" else "B")

    assert machine.send_enrollment(body).status_code == 403


def test_a_token_for_a_check_does_not_serve_for_an_enrollment(service):
    machine = service.machine()
    challenge = machine.challenge()
    challenge["token"] = machine.check_challenge()["token"]

    assert machine.send_enrollment(machine.enrollment_body(challenge)).status_code == 403


def test_a_machine_that_does_not_hold_the_key_is_refused_and_writes_nothing(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = machine.enrollment_body(machine.challenge())
    body["activation"] = text(bytes(32))

    answer = machine.send_enrollment(body)

    assert answer.status_code == 403
    assert codes(answer) == {"activation-failed"}
    with service.sessions() as session:
        assert session.scalar(select(func.count()).select_from(UsedTokenRow)) == 0


def test_a_lak_swapped_after_activation_is_refused(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    challenge = machine.challenge()
    secrets = machine.secrets(challenge)
    machine.lak = ecc_key()
    machine.secrets = lambda _: secrets

    answer = machine.send_enrollment(machine.enrollment_body(challenge))

    assert answer.status_code == 403
    assert "activation-failed" in codes(answer)


def test_facts_changed_on_the_way_are_refused(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = machine.enrollment_body(machine.challenge())
    body["facts"] = text(machine.facts(client="someone else"))

    assert codes(machine.send_enrollment(body)) == {"activation-failed"}


def test_an_unknown_key_waits_for_a_person_and_shows_in_netbox_once_proven(service):
    machine = service.machine()
    service.run(a_declaration())

    answer = machine.enroll()

    assert answer.status_code == 202
    payload = machine.opened(answer, "fleet-result+jwt")
    assert (payload["state"], payload["reason"]) == ("waiting", "ek-approval")
    assert payload["fingerprint"].replace(" ", "") == machine.ek.hash[:32]
    assert answer.headers["retry-after"] == str(payload["retry_after"])
    assert payload["retry_after"] in {3, 4}
    with service.sessions() as session:
        row = session.get(EndorsementKeyRow, machine.ek.hash)
        assert (row.machine_id, row.candidates) == (None, [7])
        assert session.scalars(select(VerdictRow)).one().state == "waiting"
        reported = [row.body for row in session.scalars(select(ReportRow)) if "eks" in row.body]
    assert [key["public_hash"] for body in reported for key in body["eks"]] == [machine.ek.hash]


def test_an_approval_lets_the_same_machine_in(service):
    machine = service.machine()
    run = service.run(a_declaration())
    assert machine.enroll().status_code == 202
    with service.sessions.begin() as session:
        record = dict(session.get(MachineRow, 7).declaration)
        record["keys"] = [{"id": 1, "public_hash": machine.ek.hash, "certificate_sha256": "", "status": "approved"}]
        session.get(MachineRow, 7).declaration = record

    answer = machine.enroll()

    assert answer.status_code == 200, answer.text
    assert machine.result["run"] == str(run)


def test_the_pause_of_a_waiting_machine_is_short_at_first_and_grows(service):
    machine = service.machine()
    pauses = []
    for _ in range(8):
        pauses.append(int(machine.enroll().headers["retry-after"]))
        service.clock.pass_by(minutes=30)

    assert pauses == sorted(pauses)
    assert pauses[0] <= 4
    assert pauses[1] >= 30 * 60 * 0.025
    assert pauses[-1] == 300


def test_a_machine_that_comes_back_after_days_waits_with_short_pauses_again(service):
    machine = service.machine()
    machine.enroll()
    service.clock.pass_by(hours=50)

    assert int(machine.enroll().headers["retry-after"]) <= 4


def test_one_address_cannot_fill_the_list_of_waiting_keys(service):
    answers = [service.machine(number, ek=pretend_ek(number)).enroll() for number in range(20, 25)]

    reasons = [service.machine().opened(answer, "fleet-result+jwt")["reason"] for answer in answers]
    assert reasons == ["ek-approval"] * 3 + ["ek-too-many-waiting"] * 2


def test_a_second_key_for_a_bound_machine_is_refused_for_good(service):
    service.enrolled()
    other = service.machine(7, ek=pretend_ek(30))
    service.declare(a_declaration(keys=(approved(pretend_ek(7)), approved(other.ek, id=2))))

    answer = other.enroll()

    assert answer.status_code == 403
    assert codes(answer) == {"ek-second"}
    assert answer.json()["stop"] is True
    with service.sessions() as session:
        row = session.get(MachineRow, 7)
        assert (row.quarantine_reason, row.hold_wanted) == (KEYS_CONTRADICT, True)


def test_a_bound_key_declared_for_another_machine_is_refused_for_good(service):
    machine, _ = service.enrolled()
    service.declare(a_declaration(7))
    service.declare(a_declaration(8, keys=(approved(machine.ek),)))

    answer = service.machine(8, ek=machine.ek).enroll()

    assert answer.status_code == 403
    assert codes(answer) == {"ek-moved"}


def test_a_key_whose_approval_was_withdrawn_is_refused(service):
    machine, _ = service.enrolled()
    service.declare(a_declaration(7, keys=(approved(machine.ek, status="retired"),)))

    assert codes(machine.enroll()) == {"ek-withdrawn"}


def test_a_key_that_a_person_rejected_is_refused_and_waits_no_longer_until_it_is_approved(service):
    machine = service.machine()
    service.run(a_declaration())
    assert machine.enroll().status_code == 202
    service.declare(a_declaration(keys=(approved(machine.ek, status="rejected"),)))

    refused = machine.enroll()

    assert (refused.status_code, codes(refused)) == (403, {"ek-rejected"})
    assert refused.json()["stop"] is False
    with service.sessions() as session:
        assert waiting_count(session) == 0
    service.declare(a_declaration(keys=(approved(machine.ek),)))
    assert machine.enroll().status_code == 200


def test_of_a_rejected_key_nobody_is_asked_while_another_of_its_tpm_still_waits(service):
    machine = service.machine(siblings=(pretend_ek(33),))
    keys = (approved(machine.ek, status="rejected"), approved(pretend_ek(33), id=2, status="pending"))
    service.run(a_declaration(keys=keys))

    assert machine.enroll().status_code == 202

    with service.sessions() as session:
        assert waiting_count(session) == 1
        assert session.get(EndorsementKeyRow, machine.ek.hash).settled


@pytest.mark.parametrize(
    ("status", "before", "code"), [("rejected", "waiting", "ek-rejected"), ("retired", "bound", "ek-withdrawn")]
)
def test_attack_a_tpm_that_is_refused_fills_neither_the_ledger_nor_netbox_with_further_keys(
    service, status, before, code
):
    """Whoever has it makes as many endorsement keys as he likes; the caps count only what waits."""
    ek = service.enrolled()[0].ek if before == "bound" else pretend_ek(7)
    if before == "waiting":
        service.run(a_declaration())
        assert service.machine().enroll().status_code == 202
    service.declare(a_declaration(keys=(approved(ek, status=status),)))

    for number in range(20, 26):
        assert codes(service.machine(ek=ek, siblings=(pretend_ek(number),)).enroll()) == {code}

    with service.sessions() as session:
        assert session.scalars(select(EndorsementKeyRow.public_hash)).all() == [ek.hash]
        bodies = [row.body for row in session.scalars(select(ReportRow))]
    assert {key["public_hash"] for body in bodies for key in body.get("eks", ())} == {ek.hash}


def certificate_for(ek):
    """The certificate of an EK by a CA that nobody knows: an owner may declare it all the same."""
    return ek_certificate(Ca("A maker"), ek.private.public_key())


def declared_by_certificate(certificate):
    return DeclaredKey(id=1, public_hash="", certificate_sha256=sha256(certificate).hexdigest(), status="approved")


def test_a_key_can_be_declared_by_its_certificate_alone(service):
    machine = service.machine()
    certificate = certificate_for(machine.ek)
    machine.certificates[machine.ek.hash] = certificate + b"\xff" * 100
    run = service.run(a_declaration(keys=(declared_by_certificate(certificate),)))

    challenge = machine.challenge()

    assert b64decode(challenge["lak_unique"]) == lak_unique(run)


def test_attack_the_certificate_of_a_declared_key_beside_another_key_makes_nobody_its_machine(service):
    """EK certificates are public: whoever knows one that was declared has not its key."""
    victim = pretend_ek(7)
    certificate = certificate_for(victim)
    run = service.run(a_declaration(keys=(declared_by_certificate(certificate),)))
    thief = service.machine(7, ek=pretend_ek(31), siblings=(pretend_ek(32),))
    thief.certificates[pretend_ek(32).hash] = certificate

    challenge = thief.challenge()
    answer = thief.send_enrollment(thief.enrollment_body(challenge))

    assert b64decode(challenge["lak_unique"]) != lak_unique(run)
    assert answer.status_code == 202
    with service.sessions() as session:
        kept = session.scalars(select(EndorsementKeyRow)).all()
        told = [row.body for row in session.scalars(select(ReportRow)) if "eks" in row.body]
    assert [(row.machine_id, row.certificate_sha256, row.manufacturer) for row in kept] == [(None, "", "")] * 2
    # NetBox would take a key for the declared one by this hash.
    assert [key["certificate_sha256"] for body in told for key in body["eks"]] == [""] * 2


def test_several_keys_of_one_tpm_enroll_together_and_are_bound_together(service):
    machine = service.machine(7, siblings=(pretend_ek(33),))
    service.run(a_declaration(keys=(approved(machine.ek), approved(pretend_ek(33), id=2))))

    assert machine.enroll().status_code == 200
    with service.sessions() as session:
        assert {row.machine_id for row in session.scalars(select(EndorsementKeyRow))} == {7}


def test_of_the_further_keys_of_a_tpm_nobody_is_asked_once_one_is_approved(service):
    """Otherwise they would be counted as waiting, and alerted for, as long as the machine lives."""
    machine = service.machine(7, siblings=(pretend_ek(33),))
    service.run(a_declaration())
    assert machine.enroll().status_code == 202
    with service.sessions() as session:
        assert waiting_count(session) == 2

    service.declare(a_declaration(keys=(approved(machine.ek),)))
    assert machine.enroll().status_code == 200

    with service.sessions() as session:
        assert session.get(EndorsementKeyRow, pretend_ek(33).hash).machine_id is None
        assert waiting_count(session) == 0


def test_attack_keys_of_two_tpms_are_not_taken_for_one(service):
    """The second key is in no TPM that the LAK is in: its credential cannot be activated."""
    machine = service.machine(7, siblings=(pretend_ek(34),))
    service.run(a_declaration(keys=(approved(pretend_ek(34)),)))
    challenge = machine.challenge()
    secrets = machine.secrets(challenge)
    machine.secrets = lambda _: {**secrets, pretend_ek(34).public.name(): bytes(32)}

    answer = machine.send_enrollment(machine.enrollment_body(challenge))

    assert (answer.status_code, codes(answer)) == (403, {"activation-failed"})


def test_another_serial_number_than_declared_is_refused_and_may_be_tried_again(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),), device_serial="OTHER"))

    answer = machine.enroll()

    assert answer.status_code == 403
    assert codes(answer) >= {"fact-contradicts"}
    assert answer.json()["stop"] is False
    assert answer.headers["retry-after"] == "60"


def test_repeats_of_a_refused_machine_end(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),), device_serial="OTHER"))

    stops = [machine.enroll().json()["stop"] for _ in range(4)]

    assert stops == [False, False, False, True]


def test_foreign_mac_addresses_are_refused(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))

    answer = machine.enroll(facts=machine.facts(macs=["52:54:00:ff:ff:ff"]))

    assert "fact-contradicts" in codes(answer)


def test_a_refusal_does_not_tell_the_value_that_would_have_been_accepted(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),), device_serial="THE-RIGHT-SERIAL"))

    assert "THE-RIGHT-SERIAL" not in machine.enroll().text


def test_a_machine_without_a_run_is_attested_and_gets_no_certificates(service):
    machine = service.machine()
    service.declare(a_declaration(keys=(approved(machine.ek),)))

    answer = machine.enroll()

    assert answer.status_code == 200
    assert "run" not in machine.result
    assert "certificates" not in machine.result


def test_a_wipe_proves_the_machine_and_issues_nothing(service):
    machine, _ = service.enrolled(kind=IntentKind.WIPE)

    assert "certificates" not in machine.result
    with service.sessions() as session:
        assert session.scalar(select(func.count()).select_from(InstallRow)) == 0


def test_a_provision_stages_its_keys_until_the_disk_may_be_erased(service):
    machine, run = service.enrolled()
    with service.sessions() as session:
        assert session.scalars(select(InstallRow)).one().staged is True
    service.move(run, states.Erasing)

    answer = machine.call("POST", f"/v1/runs/{run}/leave", {"action": "erase", "disk_serial": "LAB0001"})

    assert answer.status_code == 200, answer.text
    with service.sessions() as session:
        assert session.scalars(select(InstallRow)).one().staged is False


def test_enrolling_again_in_the_run_keeps_certificates(service):
    machine, _ = service.enrolled()
    before = machine.result["certificates"]

    challenge = machine.challenge()
    answer = machine.send_enrollment(machine.enrollment_body(challenge))

    assert answer.status_code == 200
    assert machine.result["certificates"] == before
    assert challenge["ldevid"]["public"] == text(machine.ldevid.public.raw)


def test_an_attest_with_another_key_ends_the_certificate_of_the_one_before(service):
    """As after a crash between issuing and answering: what was issued under the lost key is nobody's."""
    machine, _ = service.enrolled(kind=IntentKind.ATTEST)
    before = in_force(service)
    machine.ldevid = ldevid_key()

    answer = machine.send_enrollment(machine.enrollment_body(machine.challenge()))

    assert answer.status_code == 200, answer.text
    after = in_force(service)
    assert sorted(kind for kind, _ in after) == ["lak", "ldevid"]
    assert before & after == {each for each in before if each[0] == "lak"}


def test_a_provision_leaves_the_certificates_of_what_is_installed_in_force(service):
    machine, _ = service.enrolled(kind=IntentKind.ATTEST)
    before = in_force(service)

    machine.lak, machine.ldevid = ecc_key(), ldevid_key()
    service.run(a_declaration(7, keys=(approved(machine.ek),)), IntentKind.PROVISION)
    assert machine.enroll().status_code == 200

    assert in_force(service) > before


def in_force(service):
    with service.sessions() as session:
        rows = session.scalars(select(CertificateRow).where(CertificateRow.revoked_at.is_(None)))
        return {(row.kind, row.serial) for row in rows}


def test_an_approval_between_challenge_and_proof_asks_for_a_new_challenge(service):
    machine = service.machine()
    body = machine.enrollment_body(machine.challenge())
    service.run(a_declaration(keys=(approved(machine.ek),)))

    answer = machine.send_enrollment(body)

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:fleetd:problem:challenge-outdated"


def test_an_unrestricted_lak_gets_no_challenge(service):
    from fleetd.core.attestation.device_keys import LDEVID_ATTRIBUTES

    machine = service.machine(lak=ecc_key(attributes=LDEVID_ATTRIBUTES))
    ask = {"version": 1, "purpose": "enroll", "eks": machine.offered(), "lak": text(machine.lak.public.raw)}

    answer = service.client.post("/v1/challenges", json=ask)

    assert answer.status_code == 403
    assert answer.json()["findings"]


def test_facts_that_a_database_cannot_hold_are_cleaned(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    facts = machine.facts(client="\x00\ud800" + "x" * 9000, dmi={"serial": "SN7", "uuid": None, "vendor": ["x"]})

    assert machine.enroll(facts=facts).status_code == 200


def test_an_enrollment_of_a_class_without_secrets_still_passes(service):
    machine, _ = service.enrolled(machine_class="strict")

    assert machine.result["certificates"]


def test_the_uuid_of_a_machine_may_not_change(service):
    machine, _ = service.enrolled()
    other = {"serial": "SN7", "uuid": str(uuid.uuid4())}

    assert "fact-contradicts" in codes(machine.enroll(facts=machine.facts(dmi=other)))


def test_a_uuid_in_the_other_byte_order_is_the_same(service):
    machine, _ = service.enrolled()
    swapped = str(uuid.UUID(bytes_le=uuid.UUID(int=7 << 64 | 77).bytes))

    assert machine.enroll(facts=machine.facts(dmi={"serial": "SN7", "uuid": swapped})).status_code == 200


def test_a_class_that_is_not_known_refuses(service):
    machine = service.machine()
    service.declare(replace(a_declaration(keys=(approved(machine.ek),)), machine_class="nowhere"))

    assert codes(machine.enroll()) == {"machine-not-declared"}
