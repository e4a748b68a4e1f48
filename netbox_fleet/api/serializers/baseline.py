from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.choices import BaselineDecisionChoices, BaselineStateChoices
from netbox_fleet.models import Baseline


class BaselineSerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, read_only=True)
    state = ChoiceField(choices=BaselineStateChoices, read_only=True)
    decision = ChoiceField(choices=BaselineDecisionChoices, read_only=True)

    class Meta:
        model = Baseline
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "machine",
            "digest",
            "state",
            "pcrs",
            "difference",
            "time",
            "decision",
            "decided_by",
            "decided_at",
            "decision_reason",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "digest", "state")
