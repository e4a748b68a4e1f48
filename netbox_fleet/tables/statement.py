from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import Statement
from netbox_fleet.tables.cells import machine_column


class StatementTable(NetBoxTable):
    time = columns.DateTimeColumn(linkify=True)
    machine = machine_column()
    kind = columns.ChoiceFieldColumn()
    state = columns.ChoiceFieldColumn()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:statement_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = Statement
        fields = (
            "pk",
            "id",
            "time",
            "machine",
            "machine_name",
            "kind",
            "subject",
            "by",
            "reason",
            "state",
            "answer",
            "statement_id",
            "intent_id",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = ("time", "machine", "kind", "subject", "by", "reason", "state", "answer")
