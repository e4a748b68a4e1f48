"""Light machines of a lab: what they boot, install and are, without QEMU and without images that take a minute to build."""

from base64 import b64encode
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fleet_lab.bringup import Lab
from fleet_lab.classes import Image
from fleet_lab.images.cache import image_cache
from fleet_lab.images.light import build_light, build_light_talos
from fleet_lab.machine.forkserver import ForkServer
from fleet_lab.machine.light import ENTRY, LightMachine, LightSurroundings, Post, no_post
from fleet_lab.machine.machine import MachineSpec
from fleet_lab.machine.talos_node import trusted_roots
from fleet_lab.registry import ImageServer

HOOKOS: Final = sha256(b"light HookOS").hexdigest()
INSTALLED: Final = sha256(b"light installed system").hexdigest()
DISK: Final = 64 << 20
IMAGE: Final = "light.img.zst"
TALOS: Final = "light-talos.img.zst"
CONFIG_QUERY: Final = "code=${code}&uuid=${uuid}&serial=${serial}&mac=${mac}"


@dataclass(frozen=True, slots=True)
class LightFleet:
    """What all light machines of a lab share. Both images are signed by the key, an Ed25519 public key in base64."""

    images: ImageServer
    image: Image
    talos: Image
    signature_key: str
    processes: ForkServer
    post: Post = no_post
    talos_schema: Path | None = None

    @property
    def server(self) -> str:
        """Where the image is downloaded from, as the machines see it."""
        return f"http://10.0.2.2:{self.images.port}"

    def machine(self, lab: Lab, spec: MachineSpec) -> LightMachine:
        """Return a light machine of the lab."""
        around = LightSurroundings(
            netboot=lab.netboot(),
            tink=lab.tinkerbell.grpc,
            hookos=[HOOKOS],
            installed=[INSTALLED],
            processes=self.processes,
            command_line={
                "talos.platform": "metal",
                "talos.config": f"https://10.0.2.2:{lab.fleetd.port}/v1/config?{CONFIG_QUERY}",
                "talos.config.early": trusted_roots(lab.fleetd.ca_pem()),
            },
            talos_schema=self.talos_schema,
            post=self.post,
        )
        return LightMachine(spec, lab.places.state / spec.name, lab.places.sockets / "m", lab.authority, around)


def light_fleet(
    folder: Path, stack: ExitStack, *, post: Post = no_post, talos_schema: Path | None = None
) -> LightFleet:
    """Serve the images of light machines, and start what runs their processes; all of it stops with the stack."""
    folder.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    served: dict[str, Path] = {}
    for name, image in ((IMAGE, build_light(image_cache())), (TALOS, build_light_talos(image_cache()))):
        signature = folder / f"{name}.sig"
        signature.write_bytes(b64encode(key.sign(bytes.fromhex(image.sha256))))
        served |= {name: image.path, f"{name}.sig": signature}
    server = ImageServer([], served)
    stack.callback(server.close)
    processes = ForkServer(ENTRY, folder / "light-processes.log")
    stack.callback(processes.close)
    return LightFleet(
        server,
        Image.of(IMAGE, build_light(image_cache())),
        Image.of(TALOS, build_light_talos(image_cache())),
        b64encode(key.public_key().public_bytes_raw()).decode(),
        processes,
        post,
        talos_schema,
    )
