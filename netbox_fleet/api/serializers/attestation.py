from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.api.serializers.run import RunSerializer
from netbox_fleet.choices import AttestationKindChoices
from netbox_fleet.models import Attestation


class AttestationSerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, read_only=True, allow_null=True)
    run = RunSerializer(nested=True, read_only=True, allow_null=True)
    kind = ChoiceField(choices=AttestationKindChoices, read_only=True)

    class Meta:
        model = Attestation
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "attestation_id",
            "machine",
            "machine_name",
            "run",
            "kind",
            "passed",
            "policy",
            "findings",
            "pcr_digest",
            "pcrs",
            "facts",
            "secure_boot",
            "time",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "attestation_id", "passed", "time")
