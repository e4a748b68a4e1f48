"""`scripts/demo`: bring everything up, walk one machine from power-on to active, and leave it running or clean up."""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from fleet_lab.bringup import (
    ADMIN,
    Lab,
    Services,
    bring_up,
    clean,
    clean_beside,
    machine_spec,
    owner_enters,
    start_services,
)
from fleet_lab.classes import Image, lab_alpine, lab_cloud_init
from fleet_lab.demo.owner import Node
from fleet_lab.demo.prepare import ALPINE, CLOUD_INIT, Built, build_images, qemu_machine, serve_images
from fleet_lab.demo.screen import Screen
from fleet_lab.demo.walk import Walk
from fleet_lab.machine.machine import MachineSpec
from fleet_lab.machine.qemu import QemuMachine
from fleet_lab.places import LabError, Places

MEMORY: Final = 4 << 30
DISK: Final = 12 << 30
MACHINES: Final = 3


def main(arguments: Sequence[str]) -> int:
    """Run the demo; return its exit status."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the walk")
    parser.add_argument("--clean", action="store_true", help="remove the demo's state and end")
    asked = parser.parse_args(arguments)
    places = Places("demo")
    if asked.clean:
        clean(places)
        print("The demo's state is removed; the cache of images and of NetBox's schema stays.")
        return 0
    signal.signal(signal.SIGTERM, _as_interrupt)
    screen = Screen()
    try:
        with screen, _everything(screen) as stack:
            _check_host(places)
            lab = bring_up_demo(places, screen, stack, machines=1 if asked.once else MACHINES).lab
            _walk(lab, screen)
            if not asked.once:
                _stay(lab, screen)
    except LabError as error:
        screen.say(f"\n{error}", "red")
        screen.say(f"Logs are in {places.state}.")
        return 1
    except KeyboardInterrupt:
        screen.say("\nStopped; everything that the demo started is down.")
        return 130
    return 0


@contextmanager
def _everything(screen: Screen) -> Iterator[ExitStack]:
    """Yield the stack of what is started, and show how it all stops again."""
    stack = ExitStack()
    try:
        yield stack
    finally:
        with screen.step("stop everything that the demo started"):
            stack.close()


def _as_interrupt(number: int, frame: object) -> None:
    del number, frame
    raise KeyboardInterrupt


def _check_host(places: Places) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < MEMORY * 0.9:
        raise LabError(f"this host has {memory / (1 << 30):.1f} GB of memory; the demo needs 4 GB")
    free = shutil.disk_usage(places.state).free
    if free < DISK and not (places.state / "netbox-netbox").exists():
        raise LabError(f"{free / (1 << 30):.1f} GB are free below {places.state}; the demo needs 12 GB")


@dataclass
class Demo:
    """A running lab for QEMU machines: what they boot and install is served."""

    lab: Lab
    built: Built
    image_port: int

    def plug_in(self, spec: MachineSpec, machine_class: str) -> tuple[QemuMachine, Node]:
        """Plug in a machine; its node is not yet entered into NetBox."""
        machine = qemu_machine(self.lab, spec, self.built, self.image_port)
        return machine, self.lab.add(machine, machine_class)


def bring_up_demo(places: Places, screen: Screen, stack: ExitStack, machines: int = MACHINES) -> Demo:
    """Bring up NetBox, Tinkerbell, fleetd and QEMU machines, entered but not asked for anything."""
    stack.callback(clean_beside(places).stop, 60)
    with ThreadPoolExecutor(1) as beside:
        images = beside.submit(_images, screen)
        services = _services(places, screen, stack)
        built = images.result()
    server = serve_images(built, stack)
    guest = f"http://10.0.2.2:{server.port}"
    classes = [
        lab_alpine(Image.of(ALPINE, built.alpine), guest, built.hookos.allow),
        lab_cloud_init(Image.of(CLOUD_INIT, built.cloud_init), guest),
    ]
    with screen.step("services, Tinkerbell and fleetd") as step:
        reference = built.action.reference(f"10.0.2.2:{server.port}")
        lab = bring_up(services, classes, action_image=reference, progress=step.note)
        stack.callback(lab.stop)
    screen.say(
        f"\n  NetBox: {lab.netbox.url}/plugins/fleet/machines/   login {ADMIN[0]}, password {ADMIN[1]}\n", "bold"
    )
    demo = Demo(lab, built, server.port)
    with screen.step("machines plugged in and entered into NetBox"):
        nodes = []
        for number in range(1, machines + 1):
            kind = "lab-cloud-init" if number == MACHINES else "lab-alpine"
            nodes.append(demo.plug_in(machine_spec(number), kind)[1])
        owner_enters(lab, nodes)
    return demo


def _images(screen: Screen) -> Built:
    with screen.step("HookOS, action image and operating system images") as step:
        return build_images(step.note)


def _services(places: Places, screen: Screen, stack: ExitStack) -> Services:
    with screen.step("PostgreSQL, Valkey and NetBox's schema") as step:
        return start_services(places, stack, step.note)


def _walk(lab: Lab, screen: Screen) -> None:
    name = machine_spec(1).name
    machine = lab.owner.only("plugins/fleet/machines/", node_name=name)
    assert machine is not None
    screen.say(f"\n  {name}: {lab.netbox.url}/plugins/fleet/machines/{machine['id']}/\n", "bold")
    begun = time.monotonic()

    def tell(text: str, seconds: float) -> None:
        screen.say(f"  ✓ {text:<58} {seconds:7.1f} s", "green")

    with screen.step(f"{name} from power-on to active and checked") as step:
        Walk(lab.owner, machine["id"], machine_spec(1).disk_serial, tell, step.note).provision()
    screen.say(f"\n  {name} is active; its walk took {time.monotonic() - begun:.0f} s.", "bold")


def _stay(lab: Lab, screen: Screen) -> None:
    machine = f"{lab.netbox.url}/plugins/fleet/machines/"
    screen.say(
        f"\n  Next: open {machine}, choose {machine_spec(2).name} and press Provision; type its disk's serial,"
        f" {machine_spec(2).disk_serial}.\n  Its endorsement key then waits for you under Endorsement keys."
        "\n  Ctrl-C stops everything that the demo started, and nothing else."
    )
    while lab.netbox.children and all(child.running for child in lab.netbox.children):
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
