import django_tables2 as tables
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import MachineClass


class MachineClassTable(NetBoxTable):
    slug = tables.Column(linkify=True)
    installable = columns.BooleanColumn()
    two_person = columns.BooleanColumn()
    machine_count = columns.LinkedCountColumn(
        viewname="plugins:netbox_fleet:machine_list",
        url_params={"machine_class_id": "pk"},
        verbose_name="Machines",
    )
    outdated_count = tables.Column(orderable=False, verbose_name="From an older version")
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:machineclass_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = MachineClass
        fields = (
            "pk",
            "id",
            "slug",
            "family",
            "installable",
            "reason",
            "warning",
            "two_person",
            "role",
            "digest",
            "seen_at",
            "machine_count",
            "outdated_count",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = (
            "slug",
            "family",
            "installable",
            "reason",
            "two_person",
            "machine_count",
            "outdated_count",
            "seen_at",
        )
