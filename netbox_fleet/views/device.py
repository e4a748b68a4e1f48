"""The Fleet tab of a Device."""

from dcim.models import Device
from django.http import Http404
from django.utils.translation import gettext_lazy as _
from netbox.views import generic
from utilities.views import ViewTab, register_model_view

from netbox_fleet.models import Machine
from netbox_fleet.ui.live import state_of
from netbox_fleet.ui.timeline import timeline


def machine_of(device):
    """Return the Device's machine or None; asks the database at most once per page."""
    return getattr(device, "fleet_machine", None)


@register_model_view(Device, "fleet", path="fleet")
class DeviceFleetView(generic.ObjectView):
    queryset = Device.objects.all()
    template_name = "netbox_fleet/device_tab.html"
    tab = ViewTab(
        label=_("Fleet"),
        weight=2100,
        permission="netbox_fleet.view_machine",
        visible=lambda device: machine_of(device) is not None,
    )

    def get_extra_context(self, request, instance):
        machine = Machine.objects.restrict(request.user, "view").filter(device=instance).first()
        if machine is None:
            raise Http404
        return {**state_of(machine), "timeline": timeline(machine, request.user)}
