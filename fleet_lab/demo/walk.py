"""The walk of one machine from a wish in NetBox to its first passed check, watched through NetBox alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fleet_lab.demo.owner import Owner
from fleet_lab.places import LabError

ENDS_BADLY: Final = frozenset({"failed", "quarantined"})

Tell = Callable[[str, float], None]
"""Called with a step that ended and how long it took, in seconds."""
Note = Callable[[str], None]
"""Called with what is going on right now."""


class WalkFailedError(LabError):
    """The machine did not arrive; the message is what NetBox says about it."""


@dataclass
class Walk:
    """One provision of one machine. `ask` it, then `follow` it to the end."""

    owner: Owner
    machine: int
    disk_serial: str
    tell: Tell
    note: Note = lambda _: None
    approve: bool = True
    checked: bool = True
    """Whether the walk ends with the first passed check, or as soon as the machine is active (Talos checks nothing)."""
    patience: float = 900
    """Seconds without any news after which the walk is given up."""
    pause: float = 0.5

    def provision(self) -> Any:
        """Ask, follow to the end, and return the Machine. Raises WalkFailedError."""
        self.ask()
        return self.follow()

    def ask(self) -> None:
        """Set desired_action through the plugin's action, with the typed serial."""
        begun = time.monotonic()
        self.owner.ask(self.machine, "provision", self.disk_serial, "demo")
        self.tell("desired_action=provision set, with the disk's serial typed", time.monotonic() - begun)

    def follow(self) -> Any:
        """Follow to the first passed check and return the Machine. Raises WalkFailedError."""
        phase, since, news = "declared", time.monotonic(), time.monotonic()
        last = ""
        while True:
            machine = self.owner.machine(self.machine)
            now = time.monotonic()
            current = str(value_of(machine["phase"]))
            if current != phase:
                if phase != "declared":
                    self.tell(_sentence(phase), now - since)
                phase, since = current, now
            told = f"{current} {percent(machine)}{machine.get('message') or ''}"
            if told != last:
                last, news = told, now
                self.note(told)
            if current in ENDS_BADLY:
                raise WalkFailedError(
                    f"{machine['node_name']} is {current}: {machine.get('message')} {_findings(machine)}"
                )
            if current == "active" and not self.checked:
                return machine
            if current == "active" and value_of(machine.get("check_result")) == "ok":
                self.tell("first hourly check passed", now - since)
                return machine
            if self.approve and current in {"waiting", "attesting"}:
                self._approve_pending(since)
            if now - news > self.patience:
                raise WalkFailedError(f"{machine['node_name']}: nothing new for {self.patience:.0f} s; it is {told}")
            time.sleep(self.pause)

    def _approve_pending(self, since: float) -> None:
        for key in self.owner.pending_keys(self.machine):
            self.owner.approve(key["id"], self.machine)
            kind = value_of(key.get("key_type")) or "endorsement key"
            self.tell(f"endorsement key {kind}, proven but unknown, approved by the demo", time.monotonic() - since)


def value_of(field_value: Any) -> Any:
    """Return the value of a REST choice field, which is `{value, label}` or plain."""
    return field_value.get("value") if isinstance(field_value, dict) else field_value


def percent(machine: Any) -> str:
    """Return the progress as `40 % `, or nothing."""
    return f"{machine['percent']} % " if machine.get("percent") is not None else ""


def _sentence(phase: str) -> str:
    return {
        "waiting": "powered on by its BMC, booted from the network",
        "attesting": "attested by its TPM",
        "attested": "certificates issued",
        "erasing": "declared disk erased, with evidence",
        "installing": "image written and verified, seed written",
        "configuring": "rebooted from its disk, seed redeemed",
    }.get(phase, phase)


def _findings(machine: Any) -> str:
    return " ".join(f"[{finding['code']}] {finding['message']}" for finding in machine.get("findings") or [])
