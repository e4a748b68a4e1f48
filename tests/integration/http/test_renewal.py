"""Certificates are renewed by the boot check; the old ones end when the machine names the new ones, and not before."""

import json
from base64 import b64decode
from datetime import timedelta

import pytest
from cryptography import x509
from sqlalchemy import select

from fleetd.store.certificates import CertificateRow
from tests.integration.http import machines
from tests.integration.http.test_seeds import with_ticket


@pytest.fixture
def machine(service):
    """An installed machine that uses its first certificates."""
    machine, _run, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    machine.pinned = machines.pins_of(json.loads(b64decode(ticket["keys"])))
    for _ in range(2):
        machine.live_on()
    assert len(machine.serials) == 2
    return machine


def later(machine, service, **how):
    service.clock.pass_by(**how)
    machine.clock += int(timedelta(**how).total_seconds() * 1000)


def reasons(service):
    with service.sessions() as session:
        return {row.serial: row.reason for row in session.scalars(select(CertificateRow))}


def test_nothing_is_renewed_before_two_thirds_of_the_life(machine, service):
    before = list(machine.serials)
    later(machine, service, days=243)

    assert "certificates" not in machine.live_on()
    assert machine.serials == before


def test_the_old_certificates_are_superseded_when_a_later_check_names_the_new_ones(machine, service):
    old = list(machine.serials)
    later(machine, service, days=244)

    machine.live_on()
    assert not set(old) & set(machine.serials)
    assert [reasons(service)[serial] for serial in old] == ["", ""], "the answer may have been lost"
    later(machine, service, hours=1)
    assert "certificates" not in machine.live_on()

    assert [reasons(service)[serial] for serial in old] == ["superseded", "superseded"]
    assert [reasons(service)[serial] for serial in machine.serials] == ["", ""]


def test_a_lost_answer_locks_nobody_out_and_is_given_again(machine, service):
    old = list(machine.serials)
    later(machine, service, days=244)
    lost = machine.check(None, machine.serials)
    later(machine, service, hours=1)

    again = machine.live_on()

    assert again["result"] == "ok"
    assert again["certificates"] == lost["certificates"]
    assert [reasons(service)[serial] for serial in old] == ["", ""]


def test_a_machine_that_was_restored_to_superseded_certificates_is_checked_and_given_the_new_ones(machine, service):
    old = list(machine.serials)
    later(machine, service, days=244)
    machine.live_on()
    later(machine, service, hours=1)
    machine.live_on()
    new, machine.serials = list(machine.serials), old
    later(machine, service, hours=1)

    told = machine.live_on()

    assert told["result"] == "ok"
    assert machine.serials == new


def test_a_renewed_certificate_is_for_the_same_keys_and_names(machine, service):
    def leaf(told):
        return x509.load_pem_x509_certificate(told["certificates"]["ldevid"].encode())

    first = leaf(machine.result)
    later(machine, service, days=244)
    second = leaf(machine.live_on())

    assert second.public_key() == first.public_key()
    assert second.subject == first.subject
    assert second.not_valid_before_utc > first.not_valid_before_utc


def test_a_paused_authority_holds_up_no_check(machine, service):
    service.exchange.issuer.pause("anna", "key ceremony")
    later(machine, service, days=244)

    told = machine.live_on()

    assert told["result"] == "ok"
    assert "certificates" not in told
    service.exchange.issuer.resume()
    later(machine, service, hours=1)
    assert "certificates" in machine.live_on()
