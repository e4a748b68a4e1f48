"""The plugin's migrations lead back to nothing and forth again, and its versions are those it says."""

import uuid

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone
from packaging.version import Version

from netbox_fleet import config, models
from netbox_fleet.models import Machine
from netbox_fleet.reports import batch

from .builders import a_key, a_machine, a_user

pytestmark = pytest.mark.usefixtures("database")


def our_tables():
    return {name for name in connection.introspection.table_names() if name.startswith("netbox_fleet_")}


def migrate(name):
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    MigrationExecutor(connection).migrate([("netbox_fleet", name)])


def steps():
    graph = MigrationExecutor(connection).loader.graph
    return [name for app, name in graph.forwards_plan(graph.leaf_nodes("netbox_fleet")[0]) if app == "netbox_fleet"]


def rows_in_every_table():
    """A machine with something of everything."""
    machine = a_machine(extra_disks=["more1"])
    key = a_key(machine)
    key.candidates.add(machine)
    now = timezone.now().isoformat()
    word = uuid.uuid4().hex
    report = {
        "machine_id": machine.pk,
        "seq": 1,
        "phase": "active",
        "run": {"id": str(uuid.uuid4()), "kind": "wipe", "state": "succeeded", "started": now, "ended": now},
        "attestation": {"id": str(uuid.uuid4()), "passed": True, "time": now},
        "certificates": [{"kind": "lak", "serial": word, "fingerprint": word * 2, "not_before": now, "not_after": now}],
        "boot_check": {"time": now, "result": "ok"},
        "baseline": {"digest": word, "state": "accepted", "time": now},
    }
    assert batch.apply({"reports": [report]}, a_user("report_machine")).accepted == 1
    models.AppliedNode.objects.create(machine=machine)
    models.Statement.objects.create(
        statement_id=uuid.uuid4(), machine=machine, machine_name="x", kind="release", by="x", reason="x", time=now
    )
    for name in models.__all__:
        assert getattr(models, name).objects.exists(), name


@pytest.mark.slow
def test_migrations_go_back_to_nothing_with_rows_in_every_table_and_forth_again():
    """One test for all of it: what takes the time is that Django renders NetBox's models for each step."""
    rows_in_every_table()
    all_steps, all_tables = steps(), our_tables()

    migrate(all_steps[0])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM netbox_fleet_machine")
        assert cursor.fetchone() == (1,), "a machine was lost on the way to the first version"
    migrate(None)
    nothing = our_tables()
    migrate(all_steps[-1])

    assert nothing == set()
    assert our_tables() == all_tables
    assert a_machine("after").pk
    assert Machine.objects.count() == 1


@pytest.mark.parametrize("version", ["4.6.9", "4.8.0"])
def test_a_netbox_of_another_version_is_refused(version):
    from core.exceptions import IncompatiblePluginError

    with pytest.raises(IncompatiblePluginError):
        config.validate({}, version)


def test_the_netbox_that_runs_is_within_the_versions_that_the_plugin_says():
    from django.conf import settings

    assert Version(config.min_version) <= Version(settings.RELEASE.version) <= Version(config.max_version)
