"""Plugin and fleetd of different versions: what is not served is refused in words, and nothing is applied."""

import pytest
from django.test import Client
from users.models import Token

from fleetd.netbox import contract as spoken
from netbox_fleet import contract

from .builders import a_machine, a_user

pytestmark = pytest.mark.usefixtures("database")
BASE = "/api/plugins/fleet/"


@pytest.fixture
def fleetd():
    """A fleetd that speaks this contract, or names none."""
    token = Token(user=a_user(superuser=True))
    token.save()
    authorized = {"Authorization": token.get_auth_header_prefix() + token.token}

    def speaks(number):
        return Client(headers={**authorized, **({contract.HEADER: str(number)} if number is not None else {})})

    return speaks


def report_of(machine):
    return {"reports": [{"machine_id": machine.pk, "seq": 1, "message": "waiting"}]}


def test_fleetd_and_the_plugin_of_one_version_speak_the_same_contract():
    assert contract.HEADER == spoken.HEADER
    assert str(contract.NEWEST) == spoken.SPOKEN


@pytest.mark.parametrize("number", [contract.NEWEST, None])
def test_what_is_served_is_answered_with_the_contract_that_was_spoken(fleetd, number):
    machine = a_machine()

    read = fleetd(number).get(f"{BASE}declarations/")
    told = fleetd(number).post(f"{BASE}reports/", report_of(machine), content_type="application/json")

    assert [answer.status_code for answer in (read, told)] == [200, 200]
    assert {answer.headers[contract.HEADER] for answer in (read, told)} == {str(contract.NEWEST)}
    machine.refresh_from_db()
    assert machine.message == "waiting"


@pytest.mark.parametrize("number", [contract.OLDEST - 1, contract.NEWEST + 1, "", "one", "1, 1", "9" * 5000])
def test_a_fleetd_of_another_contract_is_told_nothing_and_changes_nothing(fleetd, number):
    machine = a_machine()

    read = fleetd(number).get(f"{BASE}declarations/")
    told = fleetd(number).post(f"{BASE}reports/", report_of(machine), content_type="application/json")

    for answer in (read, told):
        assert answer.status_code == 409
        assert answer.json()["code"] == "contract"
        assert "the plugin first" in answer.json()["detail"]
        assert answer.headers[contract.HEADER] == str(contract.NEWEST)
    machine.refresh_from_db()
    assert machine.message == ""


def test_who_is_too_old_is_named(fleetd):
    older = fleetd(contract.OLDEST - 1).get(f"{BASE}declarations/").json()["detail"]
    newer = fleetd(contract.NEWEST + 1).get(f"{BASE}declarations/").json()["detail"]

    assert "fleetd is too old" in older
    assert "netbox_fleet is too old" in newer
