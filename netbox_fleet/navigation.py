"""The menu."""

from django.utils.translation import gettext_lazy as _
from netbox.plugins import PluginMenu, PluginMenuButton, PluginMenuItem


def _item(model, text, *, writable=False):
    buttons = []
    if writable:
        permission = [f"netbox_fleet.add_{model}"]
        buttons = [
            PluginMenuButton(
                f"plugins:netbox_fleet:{model}_add", _("Add"), "mdi mdi-plus-thick", permissions=permission
            ),
            PluginMenuButton(
                f"plugins:netbox_fleet:{model}_bulk_import", _("Import"), "mdi mdi-upload", permissions=permission
            ),
        ]
    return PluginMenuItem(
        f"plugins:netbox_fleet:{model}_list", text, permissions=[f"netbox_fleet.view_{model}"], buttons=buttons
    )


menu = PluginMenu(
    label=_("Fleet"),
    icon_class="mdi mdi-server-security",
    groups=(
        (
            _("Fleet"),
            (
                PluginMenuItem(
                    "plugins:netbox_fleet:overview", _("Overview"), permissions=["netbox_fleet.view_machine"]
                ),
                _item("machine", _("Machines"), writable=True),
                _item("machineclass", _("Classes")),
                _item("run", _("Runs")),
            ),
        ),
        (
            _("Trust"),
            (
                _item("endorsementkey", _("Endorsement Keys"), writable=True),
                _item("attestation", _("Attestations")),
                _item("devicecertificate", _("Certificates")),
                _item("baseline", _("Baselines")),
                _item("bootcheck", _("Boot Checks")),
                _item("statement", _("Statements")),
            ),
        ),
    ),
)
