from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.choices import CheckChoices
from netbox_fleet.models import BootCheck


class BootCheckSerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, read_only=True)
    result = ChoiceField(choices=CheckChoices, read_only=True)

    class Meta:
        model = BootCheck
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "machine",
            "time",
            "result",
            "findings",
            "difference",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "time", "result")
