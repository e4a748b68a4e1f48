"""Columns that core's Device list offers: what the Device's machine is, and whether it can be trusted."""

import django_tables2 as tables
from dcim.tables import DeviceTable
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from utilities.tables import register_table_column

from netbox_fleet.models import Machine


class MachineColumn(tables.Column):
    """A field of the Device's machine, where the reader may view that machine."""

    def __init__(self, field, **kwargs):
        self.field = field
        super().__init__(accessor=f"fleet_machine__{field}", **kwargs)

    def render(self, record, table):
        return self.shown(record.fleet_machine) if _visible(record, table) else self.default

    def value(self, record, table):
        return self.plain(record.fleet_machine) if _visible(record, table) else ""

    def shown(self, machine):
        return self.plain(machine)

    def plain(self, machine):
        return str(getattr(machine, self.field))


class MachineChoiceColumn(MachineColumn):
    """A choice as a badge."""

    def shown(self, machine):
        color = getattr(machine, f"get_{self.field}_color")() or "secondary"
        return format_html('<span class="badge text-bg-{}">{}</span>', color, self.plain(machine))

    def plain(self, machine):
        return str(getattr(machine, f"get_{self.field}_display")())


class MachineTimeColumn(MachineColumn):
    """A moment."""

    def shown(self, machine):
        return self.plain(machine)[:16].replace("T", " ")

    def plain(self, machine):
        return getattr(machine, self.field).isoformat()


def _visible(device, table):
    """Whether the reader may view the Device's machine; one query a table."""
    if not hasattr(table, "_fleet_visible"):
        request = getattr(table, "request", None)
        machines = Machine.objects.none() if request is None else Machine.objects.restrict(request.user, "view")
        table._fleet_visible = set(machines.values_list("device_id", flat=True))  # noqa: SLF001 - our own note
    return device.pk in table._fleet_visible  # noqa: SLF001


register_table_column(MachineChoiceColumn("phase", verbose_name=_("Fleet phase")), "fleet_phase", DeviceTable)
register_table_column(MachineChoiceColumn("check_result", verbose_name=_("Trust")), "fleet_trust", DeviceTable)
register_table_column(MachineTimeColumn("last_check", verbose_name=_("Last check")), "fleet_last_check", DeviceTable)
