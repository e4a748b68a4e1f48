"""Every part of fleetd, made from the configuration: what serve, worker, beat and the command line share."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from importlib import metadata
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from fleetd.app.exchange import Exchange, ExchangeSettings
from fleetd.app.reservations import KeptReservations
from fleetd.app.tickets import StoredTickets, WithdrawingAuthority
from fleetd.app.world import LifecycleSettings, Service, World
from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.revoking import FleetAuthority
from fleetd.ca.service_keys import ServiceKeys
from fleetd.ca.speaker import AuditSigner, ServiceSpeaker
from fleetd.ca.token import TokenKeys
from fleetd.ca.tree import Tree, TreeError
from fleetd.class_file import ClassFile
from fleetd.config import Settings
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.certificates.profile import Tier
from fleetd.core.classes import ClassBook, MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.names import MachineId
from fleetd.core.seed import rehearsal
from fleetd.ek_roots import load_roots
from fleetd.host import SystemClock, SystemRandom
from fleetd.kea import Kea
from fleetd.ports import Inventory, OutageError, Power, Provisioner, Workloads
from fleetd.secret_files import read_secret, secret_text
from fleetd.seeds.rendering import SeedRenderer
from fleetd.store.engine import open_engine, session_factory

_SHORTEST_KEY = 32


def version() -> str:
    """Return the version of the installed distribution, or 0 where it is run from a checkout."""
    try:
        return metadata.version("netbox-fleet")
    except metadata.PackageNotFoundError:
        return "0"


class RootsDirectory:
    """The EK roots on disk, read again when a file came or went."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._stamp: tuple[tuple[str, int], ...] | None = None
        self._store = TrustStore.of()

    def __call__(self) -> TrustStore:
        """Return the roots in force."""
        stamp = tuple(sorted((entry.name, entry.stat().st_mtime_ns) for entry in self._folders()))
        with self._lock:
            if stamp != self._stamp:
                self._store, self._stamp = load_roots(self._directory), stamp
            return self._store

    def _folders(self) -> list[Path]:
        try:
            return [self._directory, *(entry for entry in self._directory.iterdir() if entry.is_dir())]
        except OSError:
            return []


@dataclass(frozen=True, slots=True)
class InstalledClasses:
    """The classes in force, and whether their seeds can be rendered."""

    file: ClassFile
    seeds: SeedRenderer
    fleet_url: str
    fleet_ca: str
    """PEM."""

    def book(self) -> ClassBook:
        """Return the classes in force."""
        return self.file.book()

    def seed_problem(self, machine_class: MachineClass, declaration: Declaration) -> str:
        """Say why the seed could not be rendered for the machine, or nothing: it is rendered as it would be."""
        return self.seeds.rehearse(rehearsal(declaration, machine_class, self.fleet_url, self.fleet_ca))


def tree_of(settings: Settings) -> Tree:
    """Return the authorities on disk, with the token that holds the keys of the issuing ones where one is configured."""
    wanted = settings.ca.pkcs11
    token = TokenKeys(wanted.module, wanted.label, wanted.pin_file) if wanted else None
    return Tree(settings.ca.directory, token)


def nobody(machine: MachineId) -> None:
    """Wake nobody: the sweep finds the machine by itself."""


@dataclass
class Parts:
    """The parts of one process, each made when it is first asked for."""

    settings: Settings
    wake: Callable[[MachineId], None] = nobody

    clock = SystemClock()
    random = SystemRandom()

    @cached_property
    def engine(self) -> Engine:
        """Connections to PostgreSQL."""
        return open_engine(self.settings.database.address(), pool_size=self.settings.database.pool)

    @cached_property
    def sessions(self) -> sessionmaker[Session]:
        """Sessions on the store."""
        return session_factory(self.engine)

    @cached_property
    def tree(self) -> Tree:
        """The authorities on disk."""
        return tree_of(self.settings)

    @cached_property
    def service_keys(self) -> ServiceKeys:
        """The service keys, followed on disk. Raises TreeError, KeyFileError and SecretFileError."""
        keys = ServiceKeys(self.tree.directory)
        keys()
        return keys

    @cached_property
    def speaker(self) -> ServiceSpeaker:
        """What signs for machines."""
        return ServiceSpeaker(self.service_keys)

    @cached_property
    def server_key(self) -> bytes:
        """The key that seals challenges. Raises SecretFileError, ValueError."""
        key = read_secret(self.settings.ca.server_key_file)
        if len(key) < _SHORTEST_KEY:
            raise ValueError(f"{self.settings.ca.server_key_file}: shorter than {_SHORTEST_KEY} bytes")
        return key

    @cached_property
    def class_file(self) -> ClassFile:
        """`classes.json`, followed on disk."""
        return ClassFile(self.settings.paths.classes_file, self.settings.class_deadlines())

    @cached_property
    def seeds(self) -> SeedRenderer:
        """Renders seeds."""
        return SeedRenderer(self.settings.paths.templates, self.settings.paths.secrets)

    @cached_property
    def reservations(self) -> KeptReservations:
        """Keeps DHCP reservations."""
        wanted = self.settings.kea
        files = {subnet.prefix: subnet.file for subnet in wanted.subnets}
        return KeptReservations(self.sessions, self.clock, Kea(files, wanted.control_socket, wanted.timeout))

    @cached_property
    def issuer(self) -> FleetIssuer:
        """Issues certificates."""
        per_minute, settles = self.settings.caps.certificates_per_minute, self.settings.timing().clock_settles
        return FleetIssuer(self.sessions, self.tree, self.clock, self.random, self.crl_url, per_minute, settles)

    @cached_property
    def authority(self) -> FleetAuthority:
        """Takes certificates back."""
        return FleetAuthority(self.sessions, self.tree, self.clock)

    @cached_property
    def inventory(self) -> Inventory:
        """NetBox. Raises SecretFileError."""
        wanted = self.settings.netbox
        if wanted.token_file is None:
            raise ValueError("netbox.token_file is not set: `netbox fleet_service_account` prints the token")
        from fleetd.netbox.inventory import Access, NetBoxInventory

        ca_file = str(wanted.ca_file) if wanted.ca_file else ""
        return NetBoxInventory(Access(wanted.url, secret_text(wanted.token_file), wanted.timeout, ca_file))

    @property
    def crl_url(self) -> str:
        """Base of the address that CRLs are fetched from."""
        return (self.settings.ca.crl_url or self.settings.machine.public_url).rstrip("/")

    @cached_property
    def machine_ca(self) -> str:
        """What machines check the server certificate with, PEM. Raises OutageError."""
        try:
            if self.settings.machine.ca_file is not None:
                return self.settings.machine.ca_file.read_text()
            return self.tree.certificate(Tier.ROOT).public_bytes(Encoding.PEM).decode()
        except (OSError, TreeError) as error:
            raise OutageError(f"no CA certificate for machines: {error}") from error

    @property
    def server_names(self) -> tuple[str, ...]:
        """Names of fleetd's own server certificate."""
        host = urlsplit(self.settings.machine.public_url).hostname or "localhost"
        own = self.settings.machine.host
        bound = () if own in {"::", "0.0.0.0", ""} else (own,)  # noqa: S104 -- a comparison, not a binding
        return tuple(dict.fromkeys((host, *bound, *self.settings.machine.names)))

    @cached_property
    def exchange(self) -> Exchange:
        """What the machine-facing use cases touch."""
        settings = self.settings
        return Exchange(
            sessions=self.sessions,
            clock=self.clock,
            random=self.random,
            server_key=self.server_key,
            speaker=self.speaker,
            issuer=self.issuer,
            classes=self.class_file.book,
            seeds=self.seeds,
            inventory=self.inventory,
            roots=RootsDirectory(settings.paths.roots),
            settings=ExchangeSettings(
                public_url=settings.machine.public_url,
                ca_pem=self.machine_ca,
                check_interval=timedelta(seconds=settings.intervals.check),
                challenge=timedelta(seconds=settings.intervals.challenge),
                replay_window=timedelta(seconds=settings.intervals.replay_window),
                pending_keys=settings.caps.pending_keys,
                pending_keys_per_address=settings.caps.pending_keys_per_address,
                timing=settings.timing(),
            ),
            wake=self.wake,
        )

    @property
    def workloads(self) -> Workloads | None:
        """SPIRE, or None where none is configured."""
        wanted = self.settings.spire
        if not wanted.trust_domain:
            return None
        from fleetd.spire import SpireServer

        return SpireServer(wanted.trust_domain, wanted.program, wanted.socket, wanted.agent_path)

    def provisioner(self) -> tuple[Provisioner, Power]:
        """Return Tinkerbell and Rufio."""
        from fleetd.tinkerbell.api import Api
        from fleetd.tinkerbell.connect import configuration
        from fleetd.tinkerbell.power import RufioPower
        from fleetd.tinkerbell.provisioner import TinkerbellProvisioner

        wanted = self.settings.tinkerbell
        api = Api(configuration(wanted.kubeconfig), wanted.namespace, wanted.timeout)
        folder = self.settings.paths.workflows
        return TinkerbellProvisioner(api, folder, self.settings.actions_image), RufioPower(api)

    @cached_property
    def world(self) -> World:
        """What the reconcile side touches."""
        settings = self.settings
        provisioner, power = self.provisioner()
        return World(
            sessions=self.sessions,
            clock=self.clock,
            random=self.random,
            inventory=self.inventory,
            provisioner=provisioner,
            power=power,
            classes=InstalledClasses(self.class_file, self.seeds, settings.machine.public_url, self.machine_ca),
            authority=WithdrawingAuthority(self.authority, self.sessions),
            tickets=StoredTickets(self.sessions),
            reservations=self.reservations,
            signer=self.speaker,
            workloads=self.workloads,
            audit_key=AuditSigner(self.service_keys),
            settings=LifecycleSettings(
                timing=settings.timing(),
                lease=timedelta(seconds=settings.intervals.lease),
                max_runs=settings.caps.runs,
                full_read=timedelta(seconds=settings.intervals.full_read),
                service=Service(
                    fleet_url=settings.machine.public_url,
                    fleet_ca=b64encode(self.machine_ca.encode()).decode(),
                    fleet_keys=lambda: b64encode(self.speaker.jwks()).decode(),
                    version=version(),
                ),
            ),
            wake=self.wake,
        )

    def server_certificate(self) -> x509.Certificate:
        """Return the certificate of the machine listener, the owner's or fleetd's own. Raises OSError and ValueError."""
        file = self.settings.machine.certificate or self.tree.server_files[0]
        return x509.load_pem_x509_certificate(file.read_bytes())

    def publication(self, kind: str, name: str) -> bytes | None:
        """Return a CRL (DER) or the chain of a CA (PEM) by the name of its authority; None where there is none.

        A tier's name stands for all of its trusted authorities where the chain is asked for.
        """
        try:
            if kind == "crl":
                return self.authority.revocation_list(name)
            if name in set(Tier):
                tier = Tier(name)
                links = (self.tree.certificate(tier),) if tier is Tier.ROOT else self.tree.chain(tier)
            elif (issuer := self.tree.named(name)) is not None:
                links = (issuer.certificate, self.tree.certificate(Tier.ROOT))
            else:
                return None
        except TreeError:
            return None
        return b"".join(link.public_bytes(Encoding.PEM) for link in links)
