from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.models import MachineClass


class MachineClassSerializer(NetBoxModelSerializer):
    class Meta:
        model = MachineClass
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "slug",
            "family",
            "installable",
            "reason",
            "warning",
            "two_person",
            "role",
            "digest",
            "seen_at",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "slug", "family", "installable")
