"""Buttons of the actions on lists."""

from django.utils.translation import gettext_lazy as _
from netbox.object_actions import ObjectAction


class FleetBulkAction(ObjectAction):
    """An action on all selected rows."""

    multi = True
    template_name = "netbox_fleet/buttons/bulk.html"
    color = "primary"
    icon = "mdi-play"

    @classmethod
    def get_context(cls, context, obj):  # noqa: ARG003 - core calls it so
        return {"color": cls.color, "icon": cls.icon}


class BulkProvision(FleetBulkAction):
    name = "bulk_provision"
    label = _("Provision Selected")
    permissions_required = {"provision"}
    color = "blue"
    icon = "mdi-download"


class BulkAttest(FleetBulkAction):
    name = "bulk_attest"
    label = _("Attest Selected")
    permissions_required = {"attest"}
    color = "teal"
    icon = "mdi-shield-search"


class BulkWipe(FleetBulkAction):
    name = "bulk_wipe"
    label = _("Wipe Selected")
    permissions_required = {"wipe"}
    color = "red"
    icon = "mdi-eraser"


class BulkCancel(FleetBulkAction):
    name = "bulk_cancel"
    label = _("Cancel Selected")
    permissions_required = {"cancel"}
    color = "orange"
    icon = "mdi-cancel"


class BulkApprove(FleetBulkAction):
    name = "bulk_approve"
    label = _("Approve Selected")
    permissions_required = {"approve"}
    color = "green"
    icon = "mdi-check"


class BulkReject(FleetBulkAction):
    name = "bulk_reject"
    label = _("Reject Selected")
    permissions_required = {"approve"}
    color = "red"
    icon = "mdi-close"
