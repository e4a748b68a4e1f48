"""Retirement by the Device's status: who may start an erase by it, and what waits for approval."""

from typing import Any

from dcim.choices import DeviceStatusChoices
from django.http import HttpRequest
from django.urls import Resolver404, resolve

from netbox_fleet.actions import intents
from netbox_fleet.choices import IntentKindChoices, PhaseChoices
from netbox_fleet.models import Machine

# Views in which a person changes a Device by an act of their own. Imports, scripts, merges and jobs are not among them.
_OWN_ACTS = frozenset(
    {
        "dcim:device_edit",
        "dcim:device_bulk_edit",
        "dcim-api:device-detail",
        "dcim-api:device-list",
    }
)


def begin(machine: Machine, request: Any) -> None:
    """Note that the Device was set to decommissioning; call under the machine's lock, then save it.

    The intent starts at once only for a person who may wipe the machine, by an act of their own, where the disk is
    declared and no second person is demanded; otherwise it waits for approval.
    """
    if machine.phase == PhaseChoices.RETIRED or machine.desired_action == IntentKindChoices.RETIRE:
        return
    username = _username(request)
    if machine.busy:
        machine.retire_requested_by = username
        intents.request_end(machine, username, "The device is being decommissioned.")
        if machine.busy:
            return
    machine.retire_requested_by = ""
    ask = intents.Request(kind=IntentKindChoices.RETIRE, reason="The device was set to decommissioning.")
    intents.place(machine, ask, username, approved=_may_start(machine, request))


def take_back(machine: Machine, request: Any) -> None:
    """Note that the Device left decommissioning; call under the machine's lock, then save it."""
    machine.retire_requested_by = ""
    if machine.desired_action == IntentKindChoices.RETIRE:
        intents.request_end(machine, _username(request), "The device is no longer being decommissioned.")


def resume(machine: Machine) -> None:
    """Place the retirement that waited for the end of another intent; it waits for approval then."""
    if not machine.retire_requested_by or machine.busy:
        return
    if machine.device.status == DeviceStatusChoices.STATUS_DECOMMISSIONING:
        ask = intents.Request(kind=IntentKindChoices.RETIRE, reason="The device was set to decommissioning.")
        intents.place(machine, ask, machine.retire_requested_by, approved=False)
    machine.retire_requested_by = ""


def _may_start(machine: Machine, request: Any) -> bool:
    user = getattr(request, "user", None)
    if user is None or not isinstance(request, HttpRequest) or not _own_act(request):
        return False
    return (
        bool(machine.disk_serial)
        and not machine.two_person
        and bool(user.has_perm("netbox_fleet.wipe_machine", obj=machine))
    )


def _own_act(request: HttpRequest) -> bool:
    match = getattr(request, "resolver_match", None)
    if match is None:
        try:
            match = resolve(request.path_info)
        except Resolver404:
            return False
    return match.view_name in _OWN_ACTS


def _username(request: Any) -> str:
    user = getattr(request, "user", None)
    return str(user.get_username())[:150] if user is not None else ""
