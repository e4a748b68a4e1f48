from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.choices import CertificateKindChoices
from netbox_fleet.models import DeviceCertificate


class DeviceCertificateSerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, read_only=True, allow_null=True)
    kind = ChoiceField(choices=CertificateKindChoices, read_only=True)

    class Meta:
        model = DeviceCertificate
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "machine",
            "machine_name",
            "kind",
            "serial",
            "fingerprint",
            "not_before",
            "not_after",
            "issuer",
            "pem",
            "revoked_at",
            "revocation_reason",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "kind", "serial", "fingerprint")
