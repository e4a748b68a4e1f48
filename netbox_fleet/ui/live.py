"""The part of a page that refreshes itself: what it shows, and whether that has changed."""

from hashlib import sha256
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from netbox_fleet.models import Machine
from netbox_fleet.ui.alerts import alerts_of, buttons_of
from netbox_fleet.ui.outlook import outlook


def state_of(machine: Machine) -> dict[str, Any]:
    """Return the context of `inc/live.html`."""
    return {"machine": machine, "run": machine.current_run, "outlook": outlook(machine)}


def refreshed(request: HttpRequest, machine: Machine) -> HttpResponse:
    """Answer what the page shall show instead; 204, which HTMX takes for "leave it", where it shows that already.

    So neither focus nor selection is lost to a refresh that changes nothing, and a screen reader stays silent.
    """
    user = request.user
    found = {**state_of(machine), "alerts": alerts_of(machine), "buttons": buttons_of(machine, user)}
    return answer_if_changed(request, "netbox_fleet/inc/live_update.html", found)


def answer_if_changed(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render the template unless it renders to what the page names in `shown`; the answer names itself in turn."""
    rendered = render_to_string(template, {**context, "shown": ""}, request)
    shown = sha256(rendered.encode()).hexdigest()[:16]
    if request.GET.get("shown") == shown:
        return HttpResponse(status=204)
    return HttpResponse(render_to_string(template, {**context, "shown": shown}, request))
