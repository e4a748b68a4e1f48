"""What the plugin adds to core's pages and to its own object pages."""

from django.urls import reverse
from netbox.plugins import PluginTemplateExtension

from netbox_fleet.choices import KeyStatusChoices
from netbox_fleet.models import Machine
from netbox_fleet.ui.alerts import Button, alerts_of, buttons_of
from netbox_fleet.ui.live import state_of


class _Extension(PluginTemplateExtension):
    """Content about one machine that the user may view."""

    def machine(self):
        raise NotImplementedError

    def buttons(self):
        machine = self.machine()
        if machine is None:
            return ""
        found = buttons_of(machine, self.context["request"].user)
        return self.render("netbox_fleet/inc/machine_buttons.html", {"machine": machine, "buttons": found})

    def alerts(self):
        machine = self.machine()
        if machine is None:
            return ""
        return self.render("netbox_fleet/inc/alerts.html", {"machine": machine, "alerts": alerts_of(machine)})


class MachineContent(_Extension):
    models = ["netbox_fleet.machine"]

    def machine(self):
        return self.context["object"]


class DeviceContent(_Extension):
    """Panel, buttons and banners of a Device; nothing where the user may not view its machine."""

    models = ["dcim.device"]

    def machine(self):
        device = self.context["object"]
        if not hasattr(device, "_fleet_visible"):
            user = self.context["request"].user
            visible = Machine.objects.restrict(user, "view").select_related("machine_class")
            machine = visible.filter(device=device).first()
            if machine is not None:
                machine.device = device
            device._fleet_visible = machine  # noqa: SLF001 - our own note on a core object
        return device._fleet_visible  # noqa: SLF001

    def right_page(self):
        machine = self.machine()
        if machine is None:
            return ""
        return self.render("netbox_fleet/device_panel.html", state_of(machine))


class _Decisions(PluginTemplateExtension):
    """Two buttons for a decision that waits."""

    model = ""
    permission = ""
    choices: tuple[tuple[str, str, str, str], ...] = ()

    def open(self, record):
        raise NotImplementedError

    def buttons(self):
        record = self.context["object"]
        user = self.context["request"].user
        if not self.open(record) or not user.has_perm(self.permission, obj=record):
            return ""
        found = [
            Button(label, reverse(f"plugins:netbox_fleet:{self.model}_{name}", args=[record.pk]), color, icon)
            for name, label, color, icon in self.choices
        ]
        return self.render("netbox_fleet/inc/buttons.html", {"buttons": found})


class EndorsementKeyContent(_Decisions):
    models = ["netbox_fleet.endorsementkey"]
    model = "endorsementkey"
    permission = "netbox_fleet.approve_endorsementkey"
    choices = (("approve", "Approve", "green", "mdi-check"), ("reject", "Reject", "red", "mdi-close"))

    def open(self, record):
        return record.status in {KeyStatusChoices.PENDING, KeyStatusChoices.APPROVED, KeyStatusChoices.REJECTED}


class BaselineContent(_Decisions):
    models = ["netbox_fleet.baseline"]
    model = "baseline"
    permission = "netbox_fleet.accept_baseline"
    choices = (("accept", "Accept", "green", "mdi-check"), ("decline", "Decline", "red", "mdi-close"))

    def open(self, record):
        return record.open


class RunContent(PluginTemplateExtension):
    models = ["netbox_fleet.run"]

    def buttons(self):
        url = reverse("plugins:netbox_fleet:run_evidence", args=[self.context["object"].pk])
        button = Button("Evidence", url, "secondary", "mdi-file-download")
        return self.render("netbox_fleet/inc/buttons.html", {"buttons": [button]})


class DeviceCertificateContent(PluginTemplateExtension):
    models = ["netbox_fleet.devicecertificate"]

    def buttons(self):
        if not self.context["object"].pem:
            return ""
        url = reverse("plugins:netbox_fleet:devicecertificate_pem", args=[self.context["object"].pk])
        button = Button("Download", url, "secondary", "mdi-file-download")
        return self.render("netbox_fleet/inc/buttons.html", {"buttons": [button]})


template_extensions = [
    MachineContent,
    DeviceContent,
    EndorsementKeyContent,
    BaselineContent,
    RunContent,
    DeviceCertificateContent,
]
