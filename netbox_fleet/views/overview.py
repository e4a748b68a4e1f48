"""The Fleet overview: what there is, what waits for you, what fails, and the checks of the last day."""

from datetime import UTC, timedelta
from functools import reduce
from operator import or_

from django.db.models import F, Q
from django.db.models.fields.json import KeyTransform
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.generic import View
from utilities.views import ContentTypePermissionRequiredMixin

from netbox_fleet.choices import BaselineStateChoices, IntentStateChoices, PhaseChoices
from netbox_fleet.models import Baseline, EndorsementKey, Machine, MachineClass
from netbox_fleet.models.endorsementkey import waiting_keys
from netbox_fleet.ui.alerts import WORD_WANTED
from netbox_fleet.ui.counts import phases
from netbox_fleet.ui.strip import hours_of_the_fleet

_ROWS = 8
_FAILING = (PhaseChoices.FAILED, PhaseChoices.QUARANTINED)
_TROUBLED = ("drifted", "failed", "late", "lost")


class OverviewView(ContentTypePermissionRequiredMixin, View):
    """The plugin's first page."""

    def get_required_permission(self):
        return "netbox_fleet.view_machine"

    def get(self, request):
        machines = Machine.objects.restrict(request.user, "view")
        context = {
            "reported": MachineClass.objects.exists() or machines.filter(report_seq__gt=0).exists(),
            "phases": phases(request.user),
            "chart": _chart(machines),
            "blocks": [*_waiting(request.user, machines), *_troubled(machines)],
        }
        return render(request, "netbox_fleet/overview.html", context)


def _waiting(user, machines):
    keys = waiting_keys(EndorsementKey.objects.restrict(user, "approve"))
    asked = machines.filter(intent_state=IntentStateChoices.REQUESTED)
    offered = Baseline.objects.restrict(user, "accept").filter(state=BaselineStateChoices.OFFERED, decision="")
    key_list = reverse("plugins:netbox_fleet:endorsementkey_list")
    return [
        _block(
            _("Keys that wait for approval"),
            keys.select_related("machine"),
            lambda key: (
                str(key.machine or _("No machine yet")),
                f"{key} {_('from')} {key.first_seen_address or _('nowhere known')}",
            ),
            f"{key_list}?status=pending",
        ),
        _block(
            _("Requests that wait for a second person"),
            asked.order_by("intent_requested_at"),
            lambda row: (row.node_name, f"{row.get_desired_action_display()}, {row.intent_requested_by}"),
        ),
        _block(
            _("Retirements that wait for your word"),
            machines.filter(_word_wanted(), phase=PhaseChoices.RETIRING).order_by("phase_since"),
            lambda row: (row.node_name, row.message),
        ),
        _block(
            _("Baselines that wait for a decision"),
            offered.select_related("machine"),
            lambda row: (str(row.machine), row.digest[:16]),
        ),
    ]


def _word_wanted():
    return reduce(or_, (Q(findings__contains=[{"code": code}]) for code in WORD_WANTED))


def _troubled(machines):
    machine_list = reverse("plugins:netbox_fleet:machine_list")
    return [
        _block(
            _("Failing"),
            machines.filter(phase__in=_FAILING).order_by(F("phase_since").desc(nulls_last=True)),
            lambda row: (row.node_name, row.message or row.get_phase_display()),
            f"{machine_list}?phase=failed&phase=quarantined",
        ),
        _block(
            _("Boot checks not in order"),
            machines.filter(check_result__in=_TROUBLED).order_by(F("last_check").desc(nulls_last=True)),
            lambda row: (row.node_name, row.get_check_result_display()),
            machine_list + "?" + "&".join(f"check_result={word}" for word in _TROUBLED),
        ),
    ]


def _block(title, rows, words, more=""):
    count = rows.count()
    shown = []
    for row in rows[:_ROWS]:
        name, text = words(row)
        shown.append({"name": name, "text": text, "url": row.get_absolute_url()})
    return {"title": title, "count": count, "rows": shown, "more": more if count > _ROWS else ""}


def _last_two_days(machines):
    """Read of each machine's bitmaps the two that the last 24 hours are in: a large fleet has a month of them."""
    today = timezone.now().astimezone(UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in (0, 1)]
    rows = machines.values_list(*(KeyTransform(day, "check_days") for day in days))
    return [{day: hours for day, hours in zip(days, row, strict=True) if hours is not None} for row in rows]


def _chart(machines):
    hours = hours_of_the_fleet(_last_two_days(machines.filter(phase=PhaseChoices.ACTIVE)))
    most = max(count for _hour, count in hours)
    bars = []
    for index, (hour, count) in enumerate(hours):
        height = round(80 * count / most) if most else 0
        bars.append({"x": index * 20, "y": 80 - height, "height": height, "title": f"{hour} UTC: {count}"})
    return {"bars": bars, "most": most, "first": hours[0][0], "last": hours[-1][0]}
