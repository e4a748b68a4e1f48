"""What the demo's machines boot and install: built once, found in the cache afterwards, served on loopback."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from fleet_lab.bringup import Lab
from fleet_lab.images.action import ActionImage, build_action_image
from fleet_lab.images.alpine import build_alpine
from fleet_lab.images.cache import image_cache
from fleet_lab.images.cloud_init import build_cloud_init
from fleet_lab.images.disk import DiskImage
from fleet_lab.images.hookos import build_hookos
from fleet_lab.images.packages import this_host_suite
from fleet_lab.images.uki import MeasuredImage
from fleet_lab.machine.machine import MachineSpec
from fleet_lab.machine.qemu import TINK_PORT, QemuMachine, Service, Surroundings
from fleet_lab.registry import ImageServer

ALPINE: Final = "alpine.img.zst"
CLOUD_INIT: Final = "cloud-init.img.zst"


@dataclass(frozen=True, slots=True)
class Built:
    """Everything that a walk on QEMU needs, on disk."""

    action: ActionImage
    hookos: MeasuredImage
    alpine: DiskImage
    cloud_init: DiskImage


def build_images(note: Callable[[str], None]) -> Built:
    """Build what is not in the cache. Raises ImageBuildError with the tool that failed and what it said."""
    cache, suite = image_cache(), this_host_suite()
    note("action image")
    action = build_action_image(cache, suite)
    note("HookOS stand-in")
    hookos = build_hookos(cache, suite, [action.digest])
    note("lab-alpine image")
    alpine = build_alpine(cache, suite)
    note("lab-cloud-init image")
    return Built(action, hookos, alpine, build_cloud_init(cache, suite))


def serve_images(built: Built, stack: ExitStack) -> ImageServer:
    """Serve the action image as a registry does, and the disk images; stops with the stack."""
    disks = {ALPINE: built.alpine.path, CLOUD_INIT: built.cloud_init.path}
    server = ImageServer([built.action.archive], disks)
    stack.callback(server.close)
    return server


def qemu_machine(lab: Lab, spec: MachineSpec, built: Built, image_port: int) -> QemuMachine:
    """Return a UEFI machine of this lab: it reaches fleetd, Tinkerbell's agents' service and the image server only."""
    host, _, port = lab.tinkerbell.grpc.rpartition(":")
    services = [
        Service(TINK_PORT, int(port), host),
        Service(image_port, image_port),
        Service(lab.fleetd.port, lab.fleetd.port),
    ]
    around = Surroundings(built.hookos.uki, lab.netboot(), services)
    return QemuMachine(spec, lab.places.state / spec.name, lab.places.sockets / spec.name, lab.authority, around)
