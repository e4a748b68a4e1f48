"""tink-controller: renders Workflows, toggles netboot, ends runs; and knows no final state."""

import asyncio
import copy
import datetime as dt
import itertools
from collections.abc import Callable

from fleet_lab.tinkerbell import template
from fleet_lab.tinkerbell.kinds import HARDWARE, TEMPLATE, WORKFLOW
from fleet_lab.tinkerbell.store import Change, Event, Json, Store, now_text

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 1000.0
"""Seconds between tries of a Workflow that cannot be rendered: doubled each time."""
STORM_PAUSE = 0.008
"""An error whose text differs each time is written each time; every write is a reason to try again."""


class Controller:
    """Reconcile Workflows whenever they change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._failures: dict[tuple[str, str], int] = {}
        self._timers: set[asyncio.TimerHandle] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        stop_listening = self._store.listen(self._changed)
        for item in self._store.of(WORKFLOW):
            self._due.put_nowait((item["metadata"]["namespace"], item["metadata"]["name"]))
        try:
            while True:
                namespace, name = await self._due.get()
                found = self._store.get(WORKFLOW, namespace, name)
                if found is not None and "deletionTimestamp" not in found["metadata"]:
                    self._reconcile(found)
                await asyncio.sleep(0)
        finally:
            stop_listening()
            for timer in self._timers:
                timer.cancel()

    def _changed(self, event: Event) -> None:
        if event.kind is not WORKFLOW:
            return
        place = (event.item["metadata"]["namespace"], event.item["metadata"]["name"])
        if event.change is Change.DELETED:
            self._failures.pop(place, None)
        elif event.item.get("status", {}).get("templateRendering") == "failed" and event.change is Change.MODIFIED:
            self._later(STORM_PAUSE, lambda: self._due.put_nowait(place))
        else:
            self._due.put_nowait(place)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def fire() -> None:
            self._timers.discard(timer)
            action()

        timer = asyncio.get_running_loop().call_later(seconds, fire)
        self._timers.add(timer)

    def _reconcile(self, item: Json) -> None:
        match item.get("status", {}).get("state", ""):
            case "":
                self._start(item)
            case "PREPARING":
                self._prepare(item)
            case "RUNNING":
                self._watch_over(item)
            case "POST":
                self._finish(item)

    def _start(self, item: Json) -> None:
        """Render a Workflow that has no state yet, unless it is disabled."""
        spec, metadata = item.get("spec", {}), item["metadata"]
        namespace = metadata["namespace"]
        status = copy.deepcopy(item.get("status", {}))
        hardware = self._store.get(HARDWARE, namespace, spec.get("hardwareRef", ""))
        if spec.get("disabled"):
            if hardware is not None and not status.get("agentID"):
                status["agentID"] = hardware.get("spec", {}).get("agentID", "")
                self._write(item, status)
            return
        try:
            rendered = self._rendered(item, hardware)
        except template.RenderError as error:
            self._failed(item, status, str(error))
            return
        prepare = spec.get("bootOptions", {}).get("toggleAllowNetboot") or spec.get("bootOptions", {}).get("bootMode")
        status |= {"agentID": rendered.tasks[0]["agentID"], "tasks": rendered.tasks, "templateRendering": "successful"}
        if rendered.global_timeout:
            status["globalTimeout"] = rendered.global_timeout
        status["state"] = "PREPARING" if prepare else "PENDING"
        _condition(status, "TemplateRenderedSuccess", "Complete", "template rendered successfully", good=True)
        self._failures.pop((namespace, metadata["name"]), None)
        self._write(item, status)

    def _rendered(self, item: Json, hardware: Json | None) -> template.Rendered:
        spec, metadata = item.get("spec", {}), item["metadata"]
        found = self._store.get(TEMPLATE, metadata["namespace"], spec.get("templateRef", ""))
        if found is None:
            raise template.RenderError("template not found")
        wanted = spec.get("hardwareRef", "")
        if wanted and hardware is None:
            raise template.RenderError(f'hardware not found: Hardware.tinkerbell.org "{wanted}" not found')
        source = found.get("spec", {}).get("data", "")
        return template.render(metadata["name"], source, hardware, spec.get("hardwareMap", {}))

    def _failed(self, item: Json, status: Json, why: str) -> None:
        status["templateRendering"] = "failed"
        _condition(status, "TemplateRenderedSuccess", "Error", why, good=False)
        self._write(item, status)
        place = (item["metadata"]["namespace"], item["metadata"]["name"])
        tries = self._failures[place] = self._failures.get(place, 0) + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 30))
        self._later(pause, lambda: self._due.put_nowait(place))

    def _prepare(self, item: Json) -> None:
        options = item["spec"].get("bootOptions", {})
        status = copy.deepcopy(item["status"])
        if options.get("bootMode"):
            status["state"] = "FAILED"
            _condition(status, "BootJobFailed", "Error", "boot modes are not part of this stand-in", good=True)
            self._write(item, status)
            return
        self._allow_pxe(item, allowed=True)
        toggles = status.setdefault("bootOptions", {}).setdefault("allowNetboot", {})
        toggles["toggledTrue"] = True
        _condition(status, "AllowNetbootTrue", "Complete", "set allowPXE to true", good=True)
        status["state"] = "PENDING"
        self._write(item, status)

    def _watch_over(self, item: Json) -> None:
        """Arm the global timeout once the first action has a start, and hand over to the next task's worker."""
        status = copy.deepcopy(item["status"])
        tasks = status.get("tasks", [])
        actions = tasks[0]["actions"] if tasks else []
        if actions and actions[0].get("executionStart") and "globalExecutionStop" not in status:
            seconds = status.get("globalTimeout", 0)
            stop = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
            status["globalExecutionStop"] = stop.strftime("%Y-%m-%dT%H:%M:%SZ")
        current = status.get("currentState", {})
        if current.get("state") == "SUCCESS":
            for task, following in itertools.pairwise(tasks):
                if task["actions"] and task["actions"][-1]["id"] == current.get("actionID"):
                    status["agentID"] = following["agentID"]
        armed = "globalExecutionStop" in status and "globalExecutionStop" not in item["status"]
        self._write(item, status)
        if armed and status.get("globalTimeout"):
            self._arm(item["metadata"]["namespace"], item["metadata"]["name"], status["globalTimeout"])

    def _arm(self, namespace: str, name: str, seconds: float) -> None:
        """End the Workflow after the global timeout, unless anything about it changes before: then never."""
        armed_at = self._store.items[("workflows.tinkerbell.org", namespace, name)]["metadata"]["resourceVersion"]

        def expire() -> None:
            item = self._store.get(WORKFLOW, namespace, name)
            if item is not None and item["metadata"]["resourceVersion"] == armed_at:
                self._write(item, {**copy.deepcopy(item["status"]), "state": "TIMEOUT"})

        self._later(seconds, expire)

    def _finish(self, item: Json) -> None:
        status = copy.deepcopy(item["status"])
        if item["spec"].get("bootOptions", {}).get("toggleAllowNetboot"):
            self._allow_pxe(item, allowed=False)
            toggles = status.setdefault("bootOptions", {}).setdefault("allowNetboot", {})
            toggles["toggledFalse"] = True
            _condition(status, "AllowNetbootFalse", "Complete", "set allowPXE to false", good=True)
        status["state"] = "SUCCESS"
        self._write(item, status)

    def _allow_pxe(self, item: Json, *, allowed: bool) -> None:
        """Write allowPXE to every interface, also to one that had no netboot block."""
        name = item["spec"].get("hardwareRef", "")
        hardware = self._store.get(HARDWARE, item["metadata"]["namespace"], name)
        if hardware is None:
            return
        changed = copy.deepcopy(hardware)
        for interface in changed.get("spec", {}).get("interfaces", []):
            interface.setdefault("netboot", {})["allowPXE"] = allowed
        self._store.replace(HARDWARE, changed)

    def _write(self, item: Json, status: Json) -> None:
        self._store.replace(WORKFLOW, {**copy.deepcopy(item), "status": status})


def _condition(status: Json, kind: str, reason: str, message: str, *, good: bool) -> None:
    """Set a condition; one that says the same keeps its time."""
    wanted = {"type": kind, "status": "True" if good else "False", "reason": reason, "message": message}
    conditions = status.setdefault("conditions", [])
    for present in conditions:
        if present["type"] == kind:
            if any(present.get(key) != value for key, value in wanted.items()):
                present.update(wanted, time=now_text())
            return
    conditions.append({**wanted, "time": now_text()})
