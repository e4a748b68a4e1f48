import django_tables2 as tables
from django.utils.translation import gettext_lazy as _
from netbox.tables import NetBoxTable, columns

from netbox_fleet.models import Machine
from netbox_fleet.tables.cells import DriftColumn, FindingsColumn, MessageColumn, PercentColumn, TimeColumn


class MachineTable(NetBoxTable):
    node_name = tables.Column(linkify=True)
    device = tables.Column(linkify=True)
    site = tables.Column(accessor="device__site", linkify=True, verbose_name=_("Site"))
    machine_class = tables.Column(linkify=True, verbose_name=_("Class"))
    phase = columns.ChoiceFieldColumn()
    percent = PercentColumn()
    message = MessageColumn()
    desired_action = columns.ChoiceFieldColumn()
    intent_state = columns.ChoiceFieldColumn()
    check_result = columns.ChoiceFieldColumn(verbose_name=_("Trust"))
    findings = FindingsColumn()
    outdated = columns.BooleanColumn(
        accessor="outdated", orderable=False, verbose_name=_("Older class version"), false_mark=None
    )
    drift = DriftColumn()
    last_check = TimeColumn()
    tags = columns.TagColumn(url_name="plugins:netbox_fleet:machine_list")

    class Meta(NetBoxTable.Meta):
        model = Machine
        fields = (
            "pk",
            "id",
            "node_name",
            "device",
            "site",
            "machine_class",
            "phase",
            "percent",
            "message",
            "findings",
            "desired_action",
            "intent_state",
            "intent_requested_by",
            "intent_requested_at",
            "check_result",
            "last_check",
            "last_seen",
            "phase_since",
            "phase_deadline",
            "disk_serial",
            "disk_wwn",
            "bmc_address",
            "bmc_secret",
            "firmware",
            "outdated",
            "drift",
            "installed_digest",
            "tags",
            "created",
            "last_updated",
            "actions",
        )
        default_columns = (
            "pk",
            "node_name",
            "site",
            "machine_class",
            "phase",
            "check_result",
            "message",
            "percent",
            "desired_action",
            "intent_state",
        )
