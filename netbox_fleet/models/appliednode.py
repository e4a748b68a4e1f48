from django.db import models


class AppliedNode(models.Model):
    """What the nodes file last said of a machine: the common ancestor of the next merge.

    Written by `nodes/` alone, in the transaction of what it describes. No page and no REST view of its own.
    """

    machine = models.OneToOneField("netbox_fleet.Machine", on_delete=models.CASCADE, related_name="applied_node")
    fields = models.JSONField(default=dict)
    applied_at = models.DateTimeField(auto_now=True)
    applied_by = models.CharField(max_length=150, blank=True)

    def __str__(self):
        return f"{self.machine} as last applied"
