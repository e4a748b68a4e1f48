from dcim.api.serializers import DeviceSerializer
from netbox.api.fields import ChoiceField
from netbox.api.serializers import NetBoxModelSerializer
from rest_framework import serializers

from netbox_fleet.api.serializers.machineclass import MachineClassSerializer
from netbox_fleet.choices import CheckChoices, IntentKindChoices, IntentStateChoices, PhaseChoices
from netbox_fleet.models import Machine
from netbox_fleet.models.machine import INTENT_FIELDS, OBSERVED_FIELDS


class MachineSerializer(NetBoxModelSerializer):
    device = DeviceSerializer(nested=True)
    node_name = serializers.CharField(max_length=63, required=False, allow_blank=True)
    machine_class = MachineClassSerializer(nested=True, required=False, allow_null=True)
    desired_action = ChoiceField(choices=IntentKindChoices, read_only=True)
    intent_state = ChoiceField(choices=IntentStateChoices, read_only=True)
    phase = ChoiceField(choices=PhaseChoices, read_only=True)
    check_result = ChoiceField(choices=CheckChoices, read_only=True)

    outdated = serializers.BooleanField(read_only=True)

    class Meta:
        model = Machine
        fields = (
            "id",
            "url",
            "display_url",
            "display",
            "device",
            "node_name",
            "machine_class",
            "disk_serial",
            "disk_wwn",
            "extra_disks",
            "bmc_address",
            "bmc_secret",
            "firmware",
            "outdated",
            *INTENT_FIELDS,
            *OBSERVED_FIELDS,
            "tags",
            "custom_fields",
            "created",
            "last_updated",
        )
        read_only_fields = (*INTENT_FIELDS, *OBSERVED_FIELDS)
        brief_fields = ("id", "url", "display", "node_name", "phase")
        model_clean_fields = ("node_name",)

    def validate(self, data):
        """Refuse a device or name of another machine: fields that are declared here come without REST framework's check."""
        data = super().validate(data)
        if not self.nested:
            machine = self.instance or Machine(device=data["device"], node_name=data["node_name"])
            machine.validate_unique()
        return data
