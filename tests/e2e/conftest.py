"""A whole lab for a module: NetBox, Tinkerbell, fleetd, and machines that a test plugs in."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count

import pytest

from fleet_lab.bringup import Lab, Tuning, bring_up, clean, machine_spec, owner_enters, start_services
from fleet_lab.classes import lab_light
from fleet_lab.demo.owner import Node
from fleet_lab.demo.walk import Walk
from fleet_lab.fleetd_service import secret_file
from fleet_lab.light_fleet import DISK, LightFleet, light_fleet
from fleet_lab.machine.light import LightMachine
from fleet_lab.places import Places
from fleet_lab.redfish import PowerPort

NO_ACTION_IMAGE = "lab/none@sha256:" + "0" * 64


@dataclass
class Fleet:
    """A running lab and its light machines; each test takes new ones."""

    lab: Lab
    light: LightFleet
    numbers: "count[int]"

    def plug_in(
        self,
        machine_class: str = "lab-light",
        disk_serial: str = "",
        *,
        bmc: bool = True,
        port: Callable[[PowerPort], PowerPort] = lambda machine: machine,
    ):
        """Plug in a new light machine and enter it into NetBox; return its spec and its Machine id.

        One without a BMC tries the network first; `port` makes what the BMC holds of the machine.
        """
        machine, node = self.rack(machine_class, bmc=bmc, port=port)
        if disk_serial:
            node = replace(node, disk_serial=disk_serial)
        return machine.spec, owner_enters(self.lab, [node])[node.name]

    def rack(
        self,
        machine_class: str = "lab-light",
        *,
        bmc: bool = True,
        port: Callable[[PowerPort], PowerPort] = lambda machine: machine,
    ) -> tuple[LightMachine, Node]:
        """Plug in a new light machine that NetBox knows nothing of; return it, and what its owner knows of it."""
        down = [name for name, child in self.lab.fleetd.children.items() if not child.running]
        assert not down, f"an earlier test left fleetd without {', '.join(down)}"
        spec = replace(machine_spec(next(self.numbers), disk_size=DISK), network_first=not bmc)
        machine = self.light.machine(self.lab, spec)
        return machine, self.lab.add(machine, machine_class, bmc=bmc, port=port(machine))

    def walk(self, machine: int, disk_serial: str, note: Callable[[str], None] = lambda _: None, **how) -> Walk:
        """Return the walk of a machine, not begun."""
        return Walk(self.lab.owner, machine, disk_serial, lambda *_: None, note, pause=0.2, patience=600, **how)


@pytest.fixture(scope="module")
def make_fleet():
    """Make the lab of a module: it is down again before other tests begin.

    `lease` is in seconds; `classes` makes further classes, `secrets` are files of fleetd's directory of secrets, `waits` and
    `intervals` are those of fleetd's configuration.
    """
    with ExitStack() as stack:
        yield lambda lease=20.0, classes=lambda _: [], waits=None, intervals=None, secrets=None: _fleet(
            stack, classes, waits or {}, {"lease": lease, **(intervals or {})}, secrets or {}
        )


@pytest.fixture(scope="module")
def fleet(make_fleet):
    """A lab of its own."""
    return make_fleet()


def _fleet(
    stack: ExitStack, further: Callable[[LightFleet], list], waits: dict, intervals: dict, secrets: dict
) -> Fleet:
    places = Places(f"e2e-{os.getpid()}")
    stack.callback(clean, places)
    services = start_services(places, stack)
    light = light_fleet(places.state / "light", stack)
    for name, secret in secrets.items():
        secret_file(places.state / "fleetd" / "secrets" / name, secret)
    classes = [
        lab_light(light.image, light.server),
        lab_light(light.image, light.server, name="lab-broken-image"),
    ]
    classes[1]["image"]["sha256"] = "0" * 64
    classes += further(light)
    tuning = Tuning(
        intervals={"sweep": 1.0, "poll": 0.5, "look": 0.5, "report": 0.5, "check": 5.0, **intervals},
        waits=waits,
    )
    lab = bring_up(
        services,
        classes,
        action_image=NO_ACTION_IMAGE,
        tuning=tuning,
        tinkerbell_options=["--rufio-max-concurrent-reconciles", "10"],
    )
    stack.callback(lab.stop)
    return Fleet(lab, light, count(1))
