"""The whole lab on one host: services, Tinkerbell, fleetd, machines and their BMCs; up in order, down in reverse."""

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fleet_lab.demo.owner import Node, Owner
from fleet_lab.fleetd_service import FleetdService, new_service, secret_file
from fleet_lab.machine.machine import Machine, MachineSpec
from fleet_lab.machine.netboot import HardwareNetboot, hardware_lister
from fleet_lab.machine.swtpm import TpmAuthority
from fleet_lab.places import LabError, Places
from fleet_lab.redfish import Bmc, PowerPort
from fleet_lab.services.netbox import NetBox, make_netbox
from fleet_lab.services.postgres import Postgres, start_postgres
from fleet_lab.services.process import Child
from fleet_lab.services.valkey import Valkey, start_valkey
from fleet_lab.tinkerbell.endpoint import Tinkerbell, real_tinkerbell, start_standin

NAMESPACE: Final = "tinkerbell"
ADMIN: Final = ("admin", "admin")
"""Login of the lab's NetBox, on loopback only."""

Progress = Callable[[str], None]


@dataclass
class Lab:
    """Everything that runs. `stop` ends all of it and nothing else."""

    places: Places
    postgres: Postgres
    valkey: Valkey
    netbox: NetBox
    tinkerbell: Tinkerbell
    fleetd: FleetdService
    owner: Owner
    authority: TpmAuthority
    machines: dict[str, Machine] = field(default_factory=dict)
    bmcs: dict[str, Bmc] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def stop(self) -> None:
        """Stop everything, last started first."""
        self.stack.close()

    def netboot(self) -> HardwareNetboot:
        """Return what decides whether a machine of this lab may netboot."""
        return HardwareNetboot(hardware_lister(str(self.tinkerbell.kubeconfig), NAMESPACE))

    def add(self, machine: Machine, machine_class: str, *, bmc: bool = True, port: PowerPort | None = None) -> Node:
        """Plug a machine in, give it a BMC with its Secret, and return it as its owner would enter it.

        `port` is what the BMC holds of the machine, where that is not simply the machine.
        """
        spec = machine.spec
        self.machines[spec.name] = machine
        self.stack.callback(machine.close)
        name = f"bmc-{spec.name}" if bmc else ""
        address = self.put_bmc(spec.name, port or machine, name) if bmc else ""
        return Node(spec.name, machine_class, spec.serial, spec.disk_serial, spec.mac, spec.address, address, name)

    def put_bmc(self, machine: str, port: PowerPort, secret: str) -> str:
        """Put a new BMC into a machine, with its Secret; return its address."""
        password = secrets.token_urlsafe(12)
        controller = Bmc(port, "fleet", password, self.places.state / "bmc.pem", name=machine).start()
        self.stack.callback(controller.close)
        self.bmcs[machine] = controller
        self.tinkerbell.put_secret(secret, {"username": "fleet", "password": password}, {"fleet/bmc": "ready"})
        return f"{controller.address}:{controller.tcp_port}"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Intervals and deadlines of fleetd in this lab: shorter than in the field, by configuration only."""

    intervals: dict[str, float] = field(
        default_factory=lambda: {"sweep": 2.0, "poll": 1.0, "look": 1.0, "report": 1.0, "check": 10.0}
    )
    deadlines: dict[str, float] = field(default_factory=dict)
    waits: dict[str, Any] = field(default_factory=dict)


def machine_spec(number: int, *, prefix: str = "lab", disk_size: int = 512 << 20) -> MachineSpec:
    """Return the n-th machine of a lab: its own name, MAC, serials and loopback address."""
    return MachineSpec(
        name=f"{prefix}-{number}",
        mac=f"52:54:00:fe:{number >> 8:02x}:{number & 255:02x}",
        serial=f"SN-{prefix.upper()}-{number:04d}",
        uuid=f"5f1ee7{number:02x}-0000-4000-8000-{number:012x}",
        disk_serial=f"{prefix}{number:04d}",
        address=f"127.64.{number >> 8}.{(number & 255) + 1}",
        disk_size=disk_size,
    )


@dataclass(frozen=True, slots=True)
class Services:
    """PostgreSQL, Valkey and a NetBox whose database is made and whose server is not started."""

    places: Places
    postgres: Postgres
    valkey: Valkey
    netbox: NetBox


def start_services(places: Places, stack: ExitStack, progress: Progress = lambda _: None) -> Services:
    """Start PostgreSQL and Valkey and make NetBox's database; they stop with the stack. Raises LabError."""
    progress("PostgreSQL and Valkey")
    postgres = start_postgres(places)
    stack.callback(postgres.stop)
    valkey = start_valkey(places)
    stack.callback(valkey.stop)
    return Services(places, postgres, valkey, make_netbox(places, postgres, valkey, progress=progress))


def bring_up(
    services: Services,
    classes: Sequence[dict[str, Any]],
    *,
    action_image: str,
    tuning: Tuning | None = None,
    tinkerbell_options: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> Lab:
    """Start NetBox, Tinkerbell and fleetd, and connect them. Raises LabError with what failed and where its log is.

    `tinkerbell_options` are those of `python -m fleet_lab.tinkerbell`; a real Tinkerbell has its own.
    """
    places, postgres, valkey, netbox = services.places, services.postgres, services.valkey, services.netbox
    with ExitStack() as stack:
        tinkerbell = real_tinkerbell() or start_standin(places, stack, *tinkerbell_options)
        authority = TpmAuthority(places.state / "tpm-ca")
        progress("NetBox's tables and accounts, fleetd's database and keys")
        fleetd = _prepare_fleetd(services, tinkerbell, classes, action_image, tuning or Tuning())
        with ThreadPoolExecutor(1) as beside:
            prepared = beside.submit(_first_start, fleetd, postgres, authority)
            printed = _first_netbox_start(netbox, f"http://127.0.0.1:{fleetd.inside_port}/hooks/netbox")
            secret_file(_token_file(fleetd), printed.service)
            secret_file(_webhook_file(fleetd), printed.webhook)
            progress("NetBox's server")
            stack.callback(netbox.stop)
            netbox.start()
            prepared.result()
        progress("fleetd's processes")
        stack.callback(fleetd.stop)
        fleetd.start()
        owner = Owner.of(netbox.url, printed.owner)
        progress("fleetd's report of its classes")
        _wait_for_classes(owner, fleetd, [described["name"] for described in classes])
        lab = Lab(places, postgres, valkey, netbox, tinkerbell, fleetd, owner, authority)
        lab.stack = stack.pop_all()
        return lab


def _wait_for_classes(owner: Owner, fleetd: FleetdService, names: Sequence[str], seconds: float = 600) -> None:
    """Wait until fleetd has reported its classes: before that no machine can be entered."""
    deadline = time.monotonic() + seconds
    while missing := [name for name in names if owner.only("plugins/fleet/machine-classes/", slug=name) is None]:
        if time.monotonic() > deadline:
            raise LabError(
                f"fleetd has not reported its classes {', '.join(missing)} to NetBox within {seconds:.0f} s:"
                f" read {fleetd.folder}/worker.log and beat.log"
            )
        time.sleep(0.25)


def _first_start(fleetd: FleetdService, postgres: Postgres, authority: TpmAuthority) -> None:
    if not postgres.exists("fleetd"):
        postgres.create("fleetd")
    fleetd.command("migrate")
    fleetd.command("ca", "init")
    authority.manufacture(authority.folder / "first", "first")  # the CA makes itself with its first TPM
    import_roots(fleetd, [str(authority.root_certificate), str(authority.issuer_certificate)])


def import_roots(fleetd: FleetdService, roots: Sequence[str]) -> None:
    """Trust the CA of the lab's TPMs, as an owner trusts a root that no manufacturer stands for."""
    fleetd.command("ek-roots", "import", *roots, "--trust-unpinned", "--reason", "CA of the lab's software TPMs")


_FIRST_START: Final = """
import sys
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from users.models import Token, User

executor = MigrationExecutor(connection)
if executor.migration_plan(executor.loader.graph.leaf_nodes()):  # a database kept from an older checkout
    call_command("migrate", interactive=False, verbosity=0)
call_command("collectstatic", interactive=False, verbosity=0)
user, _ = User.objects.get_or_create(username={name!r}, defaults={{"email": "owner@example.org"}})
user.is_superuser = True
user.set_password({password!r})
user.save()
Token.objects.filter(user=user, description="lab").delete()
token = Token(user=user, description="lab")
token.save()
print("OWNER", token.get_auth_header_prefix() + token.token)
print("SERVICE ", end="")
call_command("fleet_service_account", "--quiet", stdout=sys.stdout)
print("WEBHOOK ", end="")
call_command("fleet_webhook", {hook!r}, "--quiet", stdout=sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class _Printed:
    """What NetBox's commands print once: API tokens, and the secret that signs its webhook."""

    owner: str
    service: str
    webhook: str


def _first_netbox_start(netbox: NetBox, hook: str) -> _Printed:
    """Migrate, collect static files, make the owner's and the service's accounts, and register fleetd's webhook.

    One process for all of it: loading NetBox is what takes the time.
    """
    printed = netbox.shell(_FIRST_START.format(name=ADMIN[0], password=ADMIN[1], hook=hook))
    names = ("OWNER ", "SERVICE ", "WEBHOOK ")
    words = dict(line.split(maxsplit=1) for line in printed.splitlines() if line.startswith(names))
    return _Printed(words["OWNER"].split()[-1], words["SERVICE"].strip(), words["WEBHOOK"].strip())


def _prepare_fleetd(
    services: Services,
    tinkerbell: Tinkerbell,
    classes: Sequence[dict[str, Any]],
    action_image: str,
    tuning: Tuning,
) -> FleetdService:
    places, valkey = services.places, services.valkey
    folder = places.state / "fleetd"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "classes.json").write_text(json.dumps({"version": 1, "classes": list(classes)}, indent=2))
    values: dict[str, dict[str, Any]] = {
        "": {"actions_image": action_image},
        "database": {"url": services.postgres.url("fleetd")},
        "broker": {
            "url": f"redis://127.0.0.1:{valkey.port}/5",
            "password_file": secret_file(folder / "broker.password", valkey.password),
        },
        "netbox": {
            "url": services.netbox.url,
            "token_file": folder / "netbox.token",
            "webhook_secret_file": folder / "webhook.secret",
        },
        "tinkerbell": {"kubeconfig": tinkerbell.kubeconfig, "namespace": NAMESPACE},
        "paths": {"classes_file": folder / "classes.json"},
        "intervals": tuning.intervals,
    }
    values |= {name: told for name, told in (("deadlines", tuning.deadlines), ("waits", tuning.waits)) if told}
    return new_service(places, values)


def _webhook_file(fleetd: FleetdService) -> Path:
    return fleetd.folder / "webhook.secret"


def _token_file(fleetd: FleetdService) -> Path:
    return fleetd.folder / "netbox.token"


def owner_enters(lab: Lab, nodes: list[Node]) -> dict[str, int]:
    """Enter nodes into NetBox and return each Machine's id by name."""
    return dict(zip([node.name for node in nodes], lab.owner.enter(nodes), strict=True))


def clean(places: Places) -> None:
    """Remove the lab's state: databases, disks, keys. The shared cache stays."""
    for folder in (places.state, places.database, places.sockets):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def clean_beside(places: Places) -> Child:
    """Move the lab's state out of the way and return the program that removes it: disks take their time to be freed."""
    old = []
    for folder in (places.state, places.database, places.sockets):
        if folder.exists():
            aside = folder.with_name(f"{folder.name}.old-{secrets.token_hex(4)}")
            folder.rename(aside)
            old.append(str(aside))
    return Child("removal of the last lab", ["rm", "-rf", "--", *old], places.state.with_suffix(".removal.log")).start()
