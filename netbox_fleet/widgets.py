"""The dashboard widget."""

from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy as _
from extras.dashboard.utils import register_widget
from extras.dashboard.widgets import DashboardWidget

from netbox_fleet.models import EndorsementKey
from netbox_fleet.models.endorsementkey import waiting_keys
from netbox_fleet.ui.counts import phases


@register_widget
class FleetWidget(DashboardWidget):
    default_title = _("Fleet")
    description = _("Machines by phase, and keys that wait for approval.")
    template_name = "netbox_fleet/widget.html"
    width = 4
    height = 4

    def render(self, request):
        pending = waiting_keys(EndorsementKey.objects.restrict(request.user, "approve"))
        return render_to_string(self.template_name, {"phases": phases(request.user), "keys": pending.count()})
