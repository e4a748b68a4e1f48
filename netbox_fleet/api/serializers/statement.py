from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer

from netbox_fleet.api.serializers.machine import MachineSerializer
from netbox_fleet.choices import StatementKindChoices, StatementStateChoices
from netbox_fleet.models import Statement


class StatementSerializer(NetBoxModelSerializer):
    machine = MachineSerializer(nested=True, read_only=True)
    kind = ChoiceField(choices=StatementKindChoices, read_only=True)
    state = ChoiceField(choices=StatementStateChoices, read_only=True)

    class Meta:
        model = Statement
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "statement_id",
            "machine",
            "machine_name",
            "kind",
            "subject",
            "intent_id",
            "by",
            "reason",
            "time",
            "state",
            "answer",
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        brief_fields = ("id", "url", "display", "statement_id", "kind", "state")
