"""What an owner does with one machine in NetBox, one wish after the other, and what must be left when all is done."""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleet_lab.bringup import Lab
from fleet_lab.demo.walk import value_of
from fleet_lab.machine.machine import MachineSpec
from fleet_lab.places import LabError

_PAUSE = 1.0
"""Seconds between looks: several lives at once must leave NetBox time for fleetd."""


@dataclass
class Life:
    """One machine; each wish waits for the end of its run, and approves the machine's key when it is asked to."""

    lab: Lab
    spec: MachineSpec
    machine: int
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, fleet: Any, *how: Any, **more: Any) -> "Life":
        """Plug in a new light machine, as `Fleet.plug_in` takes it."""
        return cls(fleet.lab, *fleet.plug_in(*how, **more))

    def ask(self, intent: str, *, ends: str = "succeeded", note: Callable[[], None] = lambda: None, **more: Any) -> Any:
        """Ask for an intent, wait for the end of its run, and return the run."""
        return self._end(self.wish(intent, **more), intent, ends, note)

    def wish(self, intent: str, **more: Any) -> str:
        """Ask for an intent, and return the id of its run at once."""
        told = self.lab.owner.post(
            f"plugins/fleet/machines/{self.machine}/{intent}/",
            {"confirm_serial": self.spec.disk_serial, "reason": "end-to-end test", **more},
        )
        return str(told["intent_id"])

    def decommission(self, note: Callable[[], None] = lambda: None) -> Any:
        """Set the Device to decommissioning, as the owner retires a machine, and wait for the end of the run."""
        device = self.shown["device"]["id"]
        self.lab.owner.patch(f"dcim/devices/{device}/", {"status": "decommissioning"})
        return self._end(self.shown["intent_id"], "retire", "succeeded", note)

    def checked(self) -> None:
        """Wait for a passed check of the installed system."""
        self.until(lambda: value_of(self.shown["check_result"]) == "ok", "passes a check")

    def drifted(self) -> None:
        """Wait until a check of the installed system has said that it booted otherwise than before."""
        self.until(lambda: value_of(self.shown["check_result"]) == "drifted", "drifts")

    @property
    def shown(self) -> Any:
        """The Machine in NetBox."""
        return self.lab.owner.machine(self.machine)

    @property
    def console(self) -> str:
        """What its console has shown."""
        return (self.lab.places.state / self.spec.name / "console.log").read_text(errors="replace")

    @property
    def phase(self) -> str:
        """Its phase in NetBox."""
        return str(value_of(self.shown["phase"]))

    def runs(self) -> list[Any]:
        """Its runs in NetBox."""
        return list(self.lab.owner.get("plugins/fleet/runs/", machine_id=self.machine)["results"])

    def ran(self) -> Counter[str]:
        """How often each action was started on a light machine, by name."""
        return Counter(line.rsplit(" ", 1)[1] for line in self.console.splitlines() if " runs " in line)

    def workflows(self) -> list[Any]:
        """Its Workflows that Tinkerbell still has."""
        every = self.lab.tinkerbell.objects("tinkerbell.org", "workflows")
        return [each for each in every if each["metadata"]["labels"].get("fleet/machine") == str(self.machine)]

    def left_nothing(self) -> None:
        """Assert that no Workflow of it is left, and that it may not netboot."""
        assert self.workflows() == []
        for hardware in self.lab.tinkerbell.objects("tinkerbell.org", "hardware"):
            if hardware["metadata"]["name"] == f"fleet-{self.machine}":
                assert not any(port.get("netboot", {}).get("allowPXE") for port in hardware["spec"]["interfaces"])

    def answers_again(self) -> None:
        """Wait until NetBox answers, after something that it needs was away."""
        self.until(self._answers, "is answered for", 120)

    def _answers(self) -> bool:
        try:
            return bool(self.phase)
        except (LabError, OSError):
            return False

    def _end(self, run: str, intent: str, ends: str, note: Callable[[], None]) -> Any:
        self.asked.append(run)
        self.until(lambda: self._over(run, note), f"ends {intent}")
        ended = next(shown for shown in self.runs() if shown["run_id"] == run)
        assert value_of(ended["state"]) == ends, self._otherwise(ended)
        return ended

    def _otherwise(self, ended: Any) -> str:
        """Say how a run ended, what is most telling first: long output is cut in its middle."""
        shown = self.shown
        said = f"{ended['kind']['label']} of {self.spec.name} {value_of(ended['state'])}: {shown['message']}"
        return f"{said}\n{json.dumps([ended, shown], indent=1)}\n{self.console[-5000:]}\n{said}"

    def _over(self, run: str, note: Callable[[], None]) -> bool:
        try:
            return self._looked(run, note)
        except (LabError, OSError):  # NetBox after something that it needs was away: the next look tells, in time
            return False

    def _looked(self, run: str, note: Callable[[], None]) -> bool:
        note()
        shown = self.shown
        if value_of(shown["phase"]) in {"waiting", "attesting"}:
            for key in self.lab.owner.pending_keys(self.machine):
                self.lab.owner.approve(key["id"], self.machine)
        return bool(shown["intent_id"] != run)

    def until(self, true: Callable[[], bool], what: str, seconds: float = 600) -> None:
        """Wait until something is true of it; give up when that many seconds brought no news of the machine."""
        news, deadline = self._news(), time.monotonic() + seconds
        while not true():
            if time.monotonic() >= deadline:
                before, news, deadline = news, self._news(), time.monotonic() + seconds
                assert news != before, f"{self.spec.name} never {what}: {json.dumps(self.shown, indent=1)}"
            time.sleep(_PAUSE)

    def _news(self) -> list[Any]:
        try:
            shown = self.shown
        except (LabError, OSError):
            return []
        return [shown[key] for key in ("intent_id", "phase_since", "message", "percent")]
