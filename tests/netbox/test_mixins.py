"""NetBox's own test mixins for every model: pages, REST, filters, tables and GraphQL."""

import uuid
from datetime import UTC, datetime

from django.test import TestCase
from utilities.testing import APIViewTestCases, TableTestCases, ViewTestCases, create_tags

from netbox_fleet import filtersets, models, tables
from netbox_fleet.graphql import types

from .builders import a_class, a_device, a_machine

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class PluginPages:
    """The pages of the plugin live under its own namespace."""

    def _get_base_url(self):
        return f"plugins:netbox_fleet:{self.model._meta.model_name}_{{}}"


class PluginAPI:
    """The REST views of the plugin live under its own namespace."""

    view_namespace = "plugins-api:netbox_fleet"

    @property
    def graphql_base_name(self):
        return self.model._meta.verbose_name.replace(" ", "_")


class ReadOnlyPages(
    PluginPages,
    ViewTestCases.GetObjectViewTestCase,
    ViewTestCases.GetObjectChangelogViewTestCase,
    ViewTestCases.ListObjectsViewTestCase,
):
    __test__ = False


class ReadOnlyAPI(
    PluginAPI,
    APIViewTestCases.GetObjectViewTestCase,
    APIViewTestCases.ListObjectsViewTestCase,
    APIViewTestCases.GraphQLTestCase,
):
    __test__ = False


class Fleet:
    """Three machines with three of everything."""

    @classmethod
    def make_machines(cls):
        return [a_machine(f"mixin-{index}") for index in range(3)]


# --- Machine


class MachinePages(
    Fleet,
    PluginPages,
    ViewTestCases.GetObjectViewTestCase,
    ViewTestCases.GetObjectChangelogViewTestCase,
    ViewTestCases.CreateObjectViewTestCase,
    ViewTestCases.EditObjectViewTestCase,
    ViewTestCases.DeleteObjectViewTestCase,
    ViewTestCases.ListObjectsViewTestCase,
    ViewTestCases.BulkImportObjectsViewTestCase,
    ViewTestCases.BulkEditObjectsViewTestCase,
    ViewTestCases.BulkDeleteObjectsViewTestCase,
):
    model = models.Machine

    @classmethod
    def setUpTestData(cls):
        made = cls.make_machines()
        device = a_device("mixin-new")
        for index in range(3):
            a_device(f"mixin-import-{index}")
        cls.form_data = {
            "device": device.pk,
            "node_name": "mixin-new",
            "machine_class": a_class().pk,
            "disk_serial": "serial9",
            "disk_wwn": "",
            "extra_disks": "serial8",
            "bmc_address": "192.0.2.9",
            "bmc_secret": "bmc-9",
            "tags": [tag.pk for tag in create_tags("Alpha", "Beta")],
        }
        cls.csv_data = (
            "device,machine_class,disk_serial",
            *(f"mixin-import-{index},lab-alpine,import{index}" for index in range(3)),
        )
        cls.csv_update_data = (
            "id,disk_serial",
            *(f"{machine.pk},update{index}" for index, machine in enumerate(made)),
        )
        cls.bulk_edit_data = {"machine_class": a_class("other").pk}


class MachineAPI(Fleet, PluginAPI, APIViewTestCases.APIViewTestCase):
    model = models.Machine
    type_class = types.MachineType
    brief_fields = ["display", "id", "node_name", "phase", "url"]
    bulk_update_data = {"bmc_address": "192.0.2.7", "bmc_secret": "bmc-7"}
    bulk_update_invalid_data = {"bmc_address": "no address!", "bmc_secret": "bmc-7"}

    @classmethod
    def setUpTestData(cls):
        cls.make_machines()
        a_class()
        cls.user_permissions = ("dcim.view_device", "netbox_fleet.view_machineclass")
        cls.create_data = [
            {"device": a_device(f"mixin-api-{index}").pk, "disk_serial": f"api{index}"} for index in range(3)
        ]


# --- EndorsementKey


class EndorsementKeyPages(
    Fleet,
    PluginPages,
    ViewTestCases.GetObjectViewTestCase,
    ViewTestCases.GetObjectChangelogViewTestCase,
    ViewTestCases.CreateObjectViewTestCase,
    ViewTestCases.EditObjectViewTestCase,
    ViewTestCases.DeleteObjectViewTestCase,
    ViewTestCases.ListObjectsViewTestCase,
    ViewTestCases.BulkImportObjectsViewTestCase,
    ViewTestCases.BulkEditObjectsViewTestCase,
    ViewTestCases.BulkDeleteObjectsViewTestCase,
):
    model = models.EndorsementKey

    @classmethod
    def setUpTestData(cls):
        machines = cls.make_machines()
        made = [
            models.EndorsementKey.objects.create(machine=machine, public_hash=f"{index:064x}")
            for index, machine in enumerate(machines)
        ]
        cls.form_data = {
            "machine": machines[0].pk,
            "public_hash": "ab" * 32,
            "certificate_sha256": "cd" * 32,
            "key_type": "rsa-2048",
            "manufacturer": "IBM",
            "model": "SW",
            "version": "2.0",
            "tags": [tag.pk for tag in create_tags("Alpha", "Beta")],
        }
        cls.csv_data = ("machine,public_hash", *(f"mixin-{index},{index + 9:064x}" for index in range(3)))
        cls.csv_update_data = ("id,manufacturer", *(f"{key.pk},NTC" for key in made))
        cls.bulk_edit_data = {"manufacturer": "IFX"}


class EndorsementKeyAPI(Fleet, PluginAPI, APIViewTestCases.APIViewTestCase):
    model = models.EndorsementKey
    type_class = types.EndorsementKeyType
    brief_fields = ["display", "id", "public_hash", "status", "url"]
    bulk_update_data = {"manufacturer": "IFX"}
    bulk_update_invalid_data = {"manufacturer": "IFX", "public_hash": "no hash"}

    @classmethod
    def setUpTestData(cls):
        machines = cls.make_machines()
        for index, machine in enumerate(machines):
            models.EndorsementKey.objects.create(machine=machine, public_hash=f"{index:064x}")
        cls.user_permissions = ("netbox_fleet.view_machine",)
        cls.create_data = [
            {"machine": machine.pk, "public_hash": f"{index + 9:064x}"} for index, machine in enumerate(machines)
        ]


# --- what the service writes


def classes(_machines):
    for index in range(3):
        a_class(f"class-{index}")


def runs(machines):
    for machine in machines:
        models.Run.objects.create(
            run_id=uuid.uuid4(), machine=machine, machine_name=machine.node_name, kind="provision", started=NOW
        )


def attestations(machines):
    for machine in machines:
        models.Attestation.objects.create(
            attestation_id=uuid.uuid4(), machine=machine, machine_name=machine.node_name, passed=True, time=NOW
        )


def certificates(machines):
    for index, machine in enumerate(machines):
        models.DeviceCertificate.objects.create(
            machine=machine,
            machine_name=machine.node_name,
            kind="ldevid",
            serial=f"{index:02x}",
            fingerprint=f"{index:064x}",
            not_before=NOW,
            not_after=NOW,
        )


def boot_checks(machines):
    for machine in machines:
        models.BootCheck.objects.create(machine=machine, time=NOW, result="ok")


def baselines(machines):
    for machine in machines:
        models.Baseline.objects.create(machine=machine, digest="ab" * 32, time=NOW)


def statements(machines):
    for machine in machines:
        models.Statement.objects.create(
            statement_id=uuid.uuid4(),
            machine=machine,
            machine_name=machine.node_name,
            kind="release",
            by="anna",
            reason="repaired",
            time=NOW,
        )


class MachineClassPages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.MachineClass

    @classmethod
    def setUpTestData(cls):
        classes(cls.make_machines())


class MachineClassAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.MachineClass
    type_class = types.MachineClassType
    brief_fields = ["display", "family", "id", "installable", "slug", "url"]

    @classmethod
    def setUpTestData(cls):
        classes([])


class RunPages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.Run

    @classmethod
    def setUpTestData(cls):
        runs(cls.make_machines())


class RunAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.Run
    type_class = types.RunType
    brief_fields = ["display", "id", "kind", "run_id", "state", "url"]

    @classmethod
    def setUpTestData(cls):
        runs(cls.make_machines())


class AttestationPages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.Attestation

    @classmethod
    def setUpTestData(cls):
        attestations(cls.make_machines())


class AttestationAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.Attestation
    type_class = types.AttestationType
    brief_fields = ["attestation_id", "display", "id", "passed", "time", "url"]

    @classmethod
    def setUpTestData(cls):
        attestations(cls.make_machines())


class DeviceCertificatePages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.DeviceCertificate

    @classmethod
    def setUpTestData(cls):
        certificates(cls.make_machines())


class DeviceCertificateAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.DeviceCertificate
    type_class = types.DeviceCertificateType
    brief_fields = ["display", "fingerprint", "id", "kind", "serial", "url"]

    @classmethod
    def setUpTestData(cls):
        certificates(cls.make_machines())


class BootCheckPages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.BootCheck

    @classmethod
    def setUpTestData(cls):
        boot_checks(cls.make_machines())


class BootCheckAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.BootCheck
    type_class = types.BootCheckType
    brief_fields = ["display", "id", "result", "time", "url"]

    @classmethod
    def setUpTestData(cls):
        boot_checks(cls.make_machines())


class BaselinePages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.Baseline

    @classmethod
    def setUpTestData(cls):
        baselines(cls.make_machines())


class BaselineAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.Baseline
    type_class = types.BaselineType
    brief_fields = ["digest", "display", "id", "state", "url"]

    @classmethod
    def setUpTestData(cls):
        baselines(cls.make_machines())


class StatementPages(Fleet, ReadOnlyPages):
    __test__ = True
    model = models.Statement

    @classmethod
    def setUpTestData(cls):
        statements(cls.make_machines())


class StatementAPI(Fleet, ReadOnlyAPI):
    __test__ = True
    model = models.Statement
    type_class = types.StatementType
    brief_fields = ["display", "id", "kind", "state", "statement_id", "url"]

    @classmethod
    def setUpTestData(cls):
        statements(cls.make_machines())


# --- filters and tables


class Filters(Fleet, TestCase):
    """Every filter set searches, and filters by machine where it has one."""

    @classmethod
    def setUpTestData(cls):
        cls.machines = cls.make_machines()
        for make in (runs, attestations, certificates, boot_checks, baselines, statements):
            make(cls.machines)
        for index, machine in enumerate(cls.machines):
            models.EndorsementKey.objects.create(machine=machine, public_hash=f"{index:064x}")

    def test_records_are_filtered_by_their_machine(self):
        for name in filtersets.__all__:
            kind = getattr(filtersets, name)
            if "machine_id" not in kind.base_filters:
                continue
            with self.subTest(filterset=name):
                rows = kind({"machine_id": [self.machines[0].pk]}, kind._meta.model.objects.all()).qs
                assert [row.machine for row in rows] == [self.machines[0]]
                rows = kind({"machine": ["mixin-1"]}, kind._meta.model.objects.all()).qs
                assert [row.machine for row in rows] == [self.machines[1]]

    def test_a_search_finds_by_name(self):
        for name in filtersets.__all__:
            kind = getattr(filtersets, name)
            with self.subTest(filterset=name):
                word = "alpine" if kind._meta.model is models.MachineClass else "mixin-2"
                assert kind({"q": word}, kind._meta.model.objects.all()).qs.count() == 1

    def test_machines_are_filtered_by_state_and_place(self):
        models.Machine.objects.filter(pk=self.machines[0].pk).update(phase="active", check_result="ok")
        everything = models.Machine.objects.all()
        for words, count in (
            ({"phase": ["active"]}, 1),
            ({"check_result": ["ok"]}, 1),
            ({"busy": True}, 0),
            ({"busy": False}, 3),
            ({"site": ["lab"]}, 3),
            ({"machine_class": ["lab-alpine"]}, 3),
            ({"device": ["mixin-0"]}, 1),
        ):
            with self.subTest(words=words):
                assert filtersets.MachineFilterSet(words, everything).qs.count() == count

    def test_certificates_are_filtered_by_revocation(self):
        models.DeviceCertificate.objects.filter(serial="00").update(revoked_at=NOW)
        everything = models.DeviceCertificate.objects.all()

        assert filtersets.DeviceCertificateFilterSet({"revoked": True}, everything).qs.count() == 1
        assert filtersets.DeviceCertificateFilterSet({"revoked": False}, everything).qs.count() == 2


def _table_case(name):
    from utilities.query import count_related

    table = getattr(tables, name)
    model = table._meta.model
    rows = model.objects.all()
    if model is models.MachineClass:
        rows = rows.annotate(machine_count=count_related(models.Machine, "machine_class"))
    body = {"table": table, "queryset_sources": [(name, rows)]}
    return type(f"{name}Case", (TableTestCases.StandardTableTestCase,), body)


for _name in tables.__all__:
    globals()[f"{_name}Case"] = _table_case(_name)
del _name
