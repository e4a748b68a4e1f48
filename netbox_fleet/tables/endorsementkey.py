import django_tables2 as tables
from django.utils.translation import gettext_lazy as _
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import EndorsementKey
from netbox_fleet.tables.cells import FindingsColumn, HexColumn, TimeColumn, machine_column


class EndorsementKeyTable(NetBoxTable):
    public_hash = HexColumn(verbose_name=_("Public hash"), linkify=True)
    machine = machine_column()
    candidates = columns.ManyToManyColumn(linkify_item=True, orderable=False)
    status = columns.ChoiceFieldColumn()
    chain_status = columns.ChoiceFieldColumn(verbose_name=_("Vouched for by"))
    certificate_sha256 = HexColumn(verbose_name=_("Certificate"))
    findings = FindingsColumn()
    created = TimeColumn(verbose_name=_("First seen"))
    model = tables.Column()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:endorsementkey_list")

    class Meta(NetBoxTable.Meta):
        model = EndorsementKey
        fields = (
            "pk",
            "id",
            "public_hash",
            "machine",
            "candidates",
            "status",
            "chain_status",
            "key_type",
            "manufacturer",
            "model",
            "version",
            "certificate_sha256",
            "first_seen_address",
            "findings",
            "decided_by",
            "decided_at",
            "decision_reason",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = (
            "pk",
            "public_hash",
            "machine",
            "candidates",
            "status",
            "chain_status",
            "key_type",
            "manufacturer",
            "first_seen_address",
            "created",
        )
