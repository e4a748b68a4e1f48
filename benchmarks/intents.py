"""How soon a wish in NetBox becomes a Workflow: a real NetBox, fleetd's processes and Tinkerbell, intervals as shipped.

The machines have no BMC: the Workflow exists before anything is switched on. Each latency is from the owner's call being
sent to the Workflow being listed; the wall clock is the only clock that counts here, so a busy host makes it longer.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.verdict import at_most
from fleet_lab.bringup import Lab, Tuning, bring_up, clean, machine_spec, owner_enters, start_services
from fleet_lab.classes import Image, lab_light
from fleet_lab.demo.owner import Node
from fleet_lab.places import LabError, Places

WITH_WEBHOOK, WITHOUT = 12, 12
APART = 1.5
"""Seconds between two wishes."""
PATIENCE = 120.0
CLASS = "lab-light"


@dataclass(frozen=True, slots=True)
class Wished:
    """A machine that may be provisioned."""

    machine: int
    disk_serial: str


def prepared(places: Places, stack: ExitStack) -> tuple[Lab, list[Wished]]:
    """Bring the lab up, and enter machines into NetBox."""
    stack.callback(clean, places)
    services = start_services(places, stack)
    machine_class = lab_light(Image("none", "00" * 32, 1 << 20), "http://127.0.0.1:1", name=CLASS)
    machine_class["boot"]["bmc"] = "optional"
    lab = bring_up(services, [machine_class], action_image="lab/none@sha256:" + "0" * 64, tuning=Tuning(intervals={}))
    stack.callback(lab.stop)
    until(lambda: lab.owner.get("plugins/fleet/machine-classes/")["count"] == 1)
    specs = [machine_spec(number) for number in range(1, WITH_WEBHOOK + WITHOUT + 1)]
    nodes = [Node(spec.name, CLASS, spec.serial, spec.disk_serial, spec.mac, spec.address) for spec in specs]
    entered = owner_enters(lab, nodes)
    return lab, [Wished(entered[spec.name], spec.disk_serial) for spec in specs]


def until(true: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until it is true. Raises LabError."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise LabError(f"waited {seconds:.0f} s in vain")
        time.sleep(0.2)


def remove_webhook(lab: Lab) -> None:
    """Take the event rule out of force."""
    rule = lab.owner.only("extras/event-rules/", name="fleetd")
    lab.owner.patch(f"extras/event-rules/{rule['id']}/", {"enabled": False})


def latencies(lab: Lab, wished: Sequence[Wished]) -> list[float]:
    """Wish for all, one after another, and return the seconds until each has its Workflow."""
    begun: dict[int, float] = {}
    arrived: dict[int, float] = {}
    waiting = list(wished)
    following = time.monotonic()
    while len(arrived) < len(wished):
        now = time.monotonic()
        if waiting and now >= following:
            next_one = waiting.pop(0)
            begun[next_one.machine] = time.monotonic()
            lab.owner.ask(next_one.machine, "provision", next_one.disk_serial, "benchmark")
            following = now + APART
        for workflow in lab.tinkerbell.objects("tinkerbell.org", "workflows"):
            machine = int(workflow["metadata"]["labels"]["fleet/machine"])
            if machine in begun:
                arrived.setdefault(machine, time.monotonic())
        if begun and time.monotonic() - max(begun.values()) > PATIENCE:
            raise LabError(
                f"{len(begun) - len(arrived)} of {len(begun)} machines have no Workflow after {PATIENCE:.0f} s"
            )
        time.sleep(0.05)
    return [arrived[machine] - begun[machine] for machine in begun]


def p95(values: Sequence[float]) -> float:
    """Return the value that 95 of 100 do not exceed; of fewer than 20, the greatest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]


def main() -> None:
    """Print one line a measurement."""
    with ExitStack() as stack:
        lab, wished = prepared(Places(f"bench-{os.getpid()}"), stack)
        at_most("intent-to-workflow-p95", p95(latencies(lab, wished[:WITH_WEBHOOK])), "s", 3)
        remove_webhook(lab)
        at_most("intent-to-workflow-p95-no-webhook", p95(latencies(lab, wished[WITH_WEBHOOK:])), "s", 20)


if __name__ == "__main__":
    main()
