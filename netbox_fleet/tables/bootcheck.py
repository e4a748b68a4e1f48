from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import BootCheck
from netbox_fleet.tables.cells import FindingsColumn, TimeColumn, machine_column


class BootCheckTable(NetBoxTable):
    time = TimeColumn(linkify=True)
    machine = machine_column()
    result = columns.ChoiceFieldColumn()
    findings = FindingsColumn()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:bootcheck_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = BootCheck
        fields = (
            "pk",
            "id",
            "time",
            "machine",
            "result",
            "findings",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = ("time", "machine", "result", "findings")
