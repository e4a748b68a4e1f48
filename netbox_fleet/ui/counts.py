"""The numbers of the overview page and the dashboard widget."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from netbox_fleet.choices import PhaseChoices
from netbox_fleet.models import Machine


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """How many machines are in a phase."""

    value: str
    label: str
    color: str
    count: int


def phases(user: Any) -> list[PhaseCount]:
    """Count the machines that the user may view, in the order of the phases; one query."""
    rows = Machine.objects.restrict(user, "view").order_by().values_list("phase").annotate(n=Count("pk"))
    counts = dict(rows)
    return [
        PhaseCount(choice.value, str(choice.label), choice.color or "gray", counts[choice.value])
        for choice in PhaseChoices.CHOICES
        if counts.get(choice.value)
    ]
