import django_tables2 as tables
from django.utils.translation import gettext_lazy as _
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import Attestation
from netbox_fleet.tables.cells import FindingsColumn, HexColumn, IdColumn, TimeColumn, machine_column


class AttestationTable(NetBoxTable):
    attestation_id = IdColumn(linkify=True, verbose_name=_("Attestation ID"))
    machine = machine_column()
    run = tables.Column(linkify=True)
    kind = columns.ChoiceFieldColumn()
    passed = columns.BooleanColumn()
    secure_boot = columns.BooleanColumn()
    findings = FindingsColumn()
    pcr_digest = HexColumn(verbose_name="PCR digest")
    time = TimeColumn()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:attestation_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = Attestation
        fields = (
            "pk",
            "id",
            "attestation_id",
            "machine",
            "machine_name",
            "run",
            "kind",
            "passed",
            "policy",
            "findings",
            "pcr_digest",
            "secure_boot",
            "time",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = (
            "attestation_id",
            "machine_name",
            "kind",
            "passed",
            "policy",
            "findings",
            "secure_boot",
            "time",
        )
