import django_tables2 as tables
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import DeviceCertificate
from netbox_fleet.tables.cells import HexColumn, TimeColumn, machine_column


class DeviceCertificateTable(NetBoxTable):
    serial = tables.Column(linkify=True)
    machine = machine_column()
    kind = columns.ChoiceFieldColumn()
    fingerprint = HexColumn()
    not_before = TimeColumn()
    not_after = TimeColumn()
    revoked_at = TimeColumn()
    valid = columns.BooleanColumn(orderable=False)
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:devicecertificate_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = DeviceCertificate
        fields = (
            "pk",
            "id",
            "serial",
            "machine",
            "machine_name",
            "kind",
            "fingerprint",
            "valid",
            "not_before",
            "not_after",
            "issuer",
            "revoked_at",
            "revocation_reason",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = ("serial", "machine_name", "kind", "valid", "not_before", "not_after", "revoked_at")
