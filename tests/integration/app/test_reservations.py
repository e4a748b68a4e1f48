"""DHCP reservations kept on change; retirement takes one away only when power is verified off."""

import json
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest

from fleetd.app.reservations import LEFT_OUT, UNTOLD, KeptReservations, left_out
from fleetd.core.declaration import Address, Vanished
from fleetd.core.names import MachineId
from fleetd.ports import OutageError
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import read_mark
from tests.worlds import a_declaration

NET = ip_network("198.51.100.0/24")


@dataclass
class FakeDhcp:
    """A DHCP server that remembers what it was given, and can fail."""

    present: list = field(default_factory=list)
    in_force: list = field(default_factory=list)
    reloads: int = 0
    problem: Exception | None = None
    on_put: list = field(default_factory=list)
    subnets = (NET,)

    def differs(self, subnet, reservations):
        return self.present != list(reservations)

    def put(self, subnet, reservations):
        self.present = list(reservations)
        for call in self.on_put:
            call()

    def reload(self):
        if self.problem is not None:
            raise self.problem
        self.reloads += 1
        self.in_force = list(self.present)

    @property
    def hosts(self):
        return [one.hostname for one in self.in_force]


@pytest.fixture
def dhcp():
    return FakeDhcp()


@pytest.fixture
def kept(stage, dhcp):
    return KeptReservations(stage.sessions, stage.clock, dhcp)


def declared(stage, *numbers, **changes):
    for number in numbers:
        stage.netbox.declare(a_declaration(number, **changes))
    stage.turn()


def test_reservations_follow_the_declarations_and_only_a_change_is_told(stage, dhcp, kept):
    declared(stage, 7, 8)
    assert kept.keep() == 1
    assert dhcp.hosts == ["node7", "node8"]

    assert kept.keep() == 0

    assert dhcp.reloads == 1


def test_a_reload_that_failed_is_tried_again(stage, dhcp, kept):
    declared(stage, 7)
    dhcp.problem = OutageError("Kea is away")
    with pytest.raises(OutageError):
        kept.keep()

    dhcp.problem = None
    kept.keep()

    assert dhcp.hosts == ["node7"]


def test_a_crash_between_writing_and_telling_is_made_good(stage, dhcp, kept):
    class Crash(BaseException):
        pass

    def crash():
        raise Crash

    declared(stage, 7)
    dhcp.on_put.append(crash)
    with pytest.raises(Crash):
        kept.keep()
    with stage.sessions() as session:
        assert read_mark(session, UNTOLD)

    dhcp.on_put.clear()
    assert kept.keep() == 0

    assert dhcp.hosts == ["node7"]


def test_who_is_left_out_is_named_in_netbox_until_it_is_mended(stage, dhcp, kept):
    declared(stage, 7)
    declared(stage, 8, addresses=(Address("203.0.113.8/24", "eth0"),))
    kept.keep()
    stage.turn()

    with stage.sessions() as session:
        assert "203.0.113.8 is in no subnet of Kea" in left_out(session)["8"]
        told = session.get(MachineRow, 8).reported["findings"]
    assert [row["code"] for row in told] == ["no-reservation"]
    assert dhcp.hosts == ["node7"]

    declared(stage, 8)
    kept.keep()
    stage.turn()

    with stage.sessions() as session:
        assert json.loads(read_mark(session, LEFT_OUT)) == {}
        assert session.get(MachineRow, 8).reported["findings"] == []
    assert dhcp.hosts == ["node7", "node8"]


def test_a_machine_that_vanished_from_netbox_keeps_its_reservation(stage, dhcp, kept):
    declared(stage, 7, 8)
    stage.netbox.declare(Vanished(MachineId(7)))
    stage.turn()

    kept.keep()

    assert dhcp.hosts == ["node7", "node8"]


def test_a_removed_reservation_is_gone_at_once(stage, dhcp, kept):
    declared(stage, 7, 8)
    kept.keep()

    kept.remove(MachineId(7))

    assert dhcp.hosts == ["node8"]


def test_a_retired_machine_has_no_reservation_and_a_new_run_gives_it_one(stage, dhcp, kept):
    declared(stage, 7, 8)
    with stage.sessions.begin() as session:
        session.get(MachineRow, 7).standing = "retired"
    kept.keep()
    assert dhcp.hosts == ["node8"]

    with stage.sessions.begin() as session:
        session.get(MachineRow, 7).run_open = True
    kept.keep()

    assert dhcp.hosts == ["node7", "node8"]


def test_without_subnets_nothing_is_kept(stage, dhcp, kept):
    declared(stage, 7)
    dhcp.subnets = ()

    assert (kept.keep(), dhcp.present) == (0, [])
