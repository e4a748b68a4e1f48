"""Two of everything, many machines, and faults without end: nothing is lost, and nothing happens twice."""

import json
import os
import random
import time
from collections import Counter

import pytest

from fleet_lab.demo.walk import value_of
from tests.e2e.life import Life
from tests.e2e.soak import Doubled, Faults, Lived, Owners, everything_of, owners_of, under

MACHINES = int(os.environ.get("FLEET_SOAK_MACHINES", "200"))
MINUTES = float(os.environ.get("FLEET_SOAK_MINUTES", "20"))
SEED = int(os.environ.get("FLEET_SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
AT_ONCE = max(4, min(24, MACHINES // 2))
"""Wishes that are open at once: what two cores do in time."""
OWNERS = ["ada", "ben", "cleo", "dan"]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + MACHINES * 30 + 3600)]


@pytest.fixture(scope="module")
def fleet(make_fleet):
    """A lab in which a stepped clock is trusted again soon, and a machine whose worker died is looked at soon."""
    return make_fleet(
        lease=8.0,
        waits={"clock_settles": 10.0},
        intervals={"sweep": 2.0, "poll": 1.0, "look": 1.0, "report": 1.0, "check": max(30.0, MACHINES / 2)},
    )


def test_two_of_everything_under_faults_lose_nothing_and_do_nothing_twice(fleet, record_property):
    print(f"FLEET_SOAK_SEED={SEED}")  # noqa: T201 - shown where the test fails
    record_property("seed", SEED)
    lab, rng = fleet.lab, random.Random(SEED)
    accounts = owners_of(lab, OWNERS)
    lives = [Life.of(fleet) for _ in range(MACHINES)]
    machines = [Lived(under(accounts[by], life), by) for life, by in zip(lives, OWNERS * MACHINES, strict=False)]
    owners = Owners(lab, machines, AT_ONCE)

    lab.fleetd.kill()
    doubled = Doubled(lab)
    try:
        faults = Faults(lab, doubled, rng)
        end = time.monotonic() + MINUTES * 60

        def over():
            lasted = time.monotonic() > end and faults.all_came and owners.all_was_asked
            return lasted or faults.trouble is not None

        try:
            owners.live(over, wish=True)
        finally:
            faults.close()
        doubled.start_what_ended()
        owners.live(lambda: not owners.open, wish=False)
        owners.live(lambda: all(is_settled(shown) for shown in owners.shown().values()), wish=False)
        assert not doubled.start_what_ended(), "a process of fleetd ended by itself when no fault was left"
    finally:
        doubled.close()
        lab.fleetd.start()

    wishes = [wish for each in machines for wish in each.ended]
    record_property("machines", len(machines))
    record_property("wishes", dict(Counter(wish.intent for wish in wishes)))
    record_property("faults", dict(faults.done))
    record_property("checks", owners.checks)
    for each in machines:
        each_wish_was_one_run_that_succeeded(each)
        assert each.life.ran()["erase"] == each.erasures, (each.life.spec.name, each.ended, each.life.ran())
    nothing_is_left_of(lab)
    no_step_was_done_twice(lab)
    one_certificate_of_each_kind_is_in_force(lab, owners.shown())
    assert "0 rows wait" in lab.fleetd.command("audit", "verify")


def is_settled(shown):
    return value_of(shown["phase"]) != "active" or value_of(shown["check_result"]) == "ok"


def query(lab, statement):
    return lab.postgres.sql(statement, "fleetd")


def each_wish_was_one_run_that_succeeded(each):
    runs = each.life.runs()
    assert Counter(run["run_id"] for run in runs) == Counter(wish.run for wish in each.ended), each
    for run in runs:
        assert value_of(run["state"]) == "succeeded", json.dumps(run, indent=1)
        assert run["requester"] == each.by


def nothing_is_left_of(lab):
    assert lab.tinkerbell.objects("tinkerbell.org", "workflows") == []
    for hardware in lab.tinkerbell.objects("tinkerbell.org", "hardware"):
        assert not any(port.get("netboot", {}).get("allowPXE") for port in hardware["spec"]["interfaces"]), hardware


def no_step_was_done_twice(lab):
    """What two beats, two workers and their doublets of messages would have shown: a step of a run told twice."""
    twice = """
        SELECT run_id, what, count(*) FROM audit
        WHERE what IN ('run-ended', 'seed-redeemed', 'retirement-recorded', 'quarantined')
        GROUP BY run_id, what HAVING count(*) > 1
    """
    assert query(lab, twice) == ""
    assert query(lab, "SELECT * FROM audit WHERE what = 'quarantined'") == ""


def one_certificate_of_each_kind_is_in_force(lab, shown):
    held = Counter()
    for line in query(
        lab, "SELECT machine_id, kind FROM certificate WHERE state = 'issued' AND revoked_at IS NULL"
    ).splitlines():
        machine, kind = line.split("|")
        held[int(machine), kind] += 1
    for machine, told in shown.items():
        with_one = value_of(told["phase"]) in {"active", "attested"}
        assert {kind: held[machine, kind] for kind in ("ldevid", "lak")} == dict.fromkeys(
            ("ldevid", "lak"), int(with_one)
        ), everything_of(lab, told)
