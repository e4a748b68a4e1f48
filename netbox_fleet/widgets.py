"""The dashboard widget."""

from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy as _
from extras.dashboard.utils import register_widget
from extras.dashboard.widgets import DashboardWidget

from netbox_fleet.choices import KeyStatusChoices
from netbox_fleet.models import EndorsementKey
from netbox_fleet.ui.counts import phases


@register_widget
class FleetWidget(DashboardWidget):
    default_title = _("Fleet")
    description = _("Machines by phase, and keys that wait for approval.")
    template_name = "netbox_fleet/widget.html"
    width = 4
    height = 4

    def render(self, request):
        pending = EndorsementKey.objects.restrict(request.user, "approve").filter(status=KeyStatusChoices.PENDING)
        return render_to_string(self.template_name, {"phases": phases(request.user), "keys": pending.count()})
