from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.choices import IntentKindChoices, RunStateChoices
from netbox_fleet.models import Run


class RunSerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, read_only=True, allow_null=True)
    kind = ChoiceField(choices=IntentKindChoices, read_only=True)
    state = ChoiceField(choices=RunStateChoices, read_only=True)

    class Meta:
        model = Run
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "run_id",
            "machine",
            "machine_name",
            "kind",
            "requester",
            "state",
            "percent",
            "steps",
            "result",
            "error",
            "evidence",
            "started",
            "ended",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "run_id", "kind", "state")
