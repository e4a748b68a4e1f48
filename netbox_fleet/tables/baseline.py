from django.utils.translation import gettext_lazy as _
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import Baseline
from netbox_fleet.tables.cells import FindingsColumn, HexColumn, TimeColumn, machine_column


class BaselineTable(NetBoxTable):
    digest = HexColumn(linkify=True)
    machine = machine_column()
    state = columns.ChoiceFieldColumn()
    decision = columns.ChoiceFieldColumn()
    difference = FindingsColumn(accessor="difference", verbose_name=_("Differences"))
    time = TimeColumn()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:baseline_list")
    actions = columns.ActionsColumn(actions=("changelog",))

    class Meta(NetBoxTable.Meta):
        model = Baseline
        fields = (
            "pk",
            "id",
            "digest",
            "machine",
            "state",
            "difference",
            "time",
            "decision",
            "decided_by",
            "decided_at",
            "decision_reason",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = ("digest", "machine", "state", "difference", "time", "decision", "decided_by")
