"""What the global search finds."""

from netbox.search import SearchIndex

from netbox_fleet import models


class MachineIndex(SearchIndex):
    model = models.Machine
    fields = (("node_name", 60), ("disk_serial", 100), ("disk_wwn", 100), ("bmc_address", 300))
    display_attrs = ("device", "machine_class", "phase")


class EndorsementKeyIndex(SearchIndex):
    model = models.EndorsementKey
    fields = (("public_hash", 100), ("certificate_sha256", 100), ("manufacturer", 500))
    display_attrs = ("machine", "status")


class RunIndex(SearchIndex):
    model = models.Run
    fields = (("run_id", 100), ("machine_name", 300), ("requester", 500))
    display_attrs = ("machine", "kind", "state")


class DeviceCertificateIndex(SearchIndex):
    model = models.DeviceCertificate
    fields = (("serial", 100), ("fingerprint", 100), ("machine_name", 300))
    display_attrs = ("machine", "kind", "not_after")


class MachineClassIndex(SearchIndex):
    model = models.MachineClass
    fields = (("slug", 100), ("family", 300))
    display_attrs = ("family", "installable")


indexes = [MachineIndex, EndorsementKeyIndex, RunIndex, DeviceCertificateIndex, MachineClassIndex]
