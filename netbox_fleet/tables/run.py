from django.utils.translation import gettext_lazy as _
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import Run
from netbox_fleet.tables.cells import IdColumn, PercentColumn, TimeColumn, machine_column


class RunTable(NetBoxTable):
    run_id = IdColumn(linkify=True, verbose_name=_("Run ID"))
    machine = machine_column()
    kind = columns.ChoiceFieldColumn()
    state = columns.ChoiceFieldColumn()
    percent = PercentColumn()
    started = TimeColumn()
    ended = TimeColumn()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:run_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = Run
        fields = (
            "pk",
            "id",
            "run_id",
            "machine",
            "machine_name",
            "kind",
            "requester",
            "state",
            "percent",
            "result",
            "error",
            "started",
            "ended",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = (
            "run_id",
            "machine_name",
            "kind",
            "requester",
            "state",
            "percent",
            "result",
            "error",
            "started",
            "ended",
        )
