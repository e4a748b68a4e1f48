from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.choices import ChainStatusChoices, KeyStatusChoices
from netbox_fleet.models import EndorsementKey


class EndorsementKeySerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, required=False, allow_null=True)
    candidates = MachineSerializer(nested=True, many=True, read_only=True)
    status = ChoiceField(choices=KeyStatusChoices, read_only=True)
    chain_status = ChoiceField(choices=ChainStatusChoices, read_only=True)

    class Meta:
        model = EndorsementKey
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "machine",
            "candidates",
            "public_hash",
            "key_type",
            "certificate_sha256",
            "manufacturer",
            "model",
            "version",
            "chain_status",
            "status",
            "first_seen_address",
            "findings",
            "decided_by",
            "decided_at",
            "decision_reason",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        read_only_fields = ("first_seen_address", "findings", "decided_by", "decided_at", "decision_reason")
        brief_fields = ("id", "url", "display", "public_hash", "status")
