"""The configuration: one TOML file and the environment; unknown keys are errors, secrets come from files."""

import os
import sys
import tomllib
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from fleetd.core.class_schema import DEADLINES
from fleetd.core.classes import Deadlines, shortened
from fleetd.core.lifecycle.timing import Timing
from fleetd.secret_files import SecretFileError, read_secret, secret_text

CONFIG_VARIABLE = "FLEETD_CONFIG"
DEFAULT_CONFIG = Path("/etc/fleetd/fleetd.toml")
_ENVIRONMENT = "FLEETD_"

Seconds = Annotated[float, Field(gt=0, le=31 * 86400)]
Port = Annotated[int, Field(ge=0, le=65535)]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(lambda text: ip_network(str(text), strict=False))]


class ConfigError(ValueError):
    """The configuration cannot be used; `errors` names everything that is wrong, by path."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Database(Section):
    """PostgreSQL. The password stands in a file, or PostgreSQL asks for none."""

    url: str = "postgresql+psycopg:///fleetd"
    password_file: Path | None = None
    pool: int = Field(default=10, ge=1, le=200)

    @field_validator("url")
    @classmethod
    def _driver(cls, url: str) -> str:
        if not url.startswith("postgresql"):
            raise ValueError("only PostgreSQL is supported: postgresql+psycopg://..")
        rest = url.split("://", 1)[-1]
        return f"postgresql+psycopg://{rest}"

    def address(self) -> str:
        """Return the URL with the password in it. Raises SecretFileError."""
        return with_password(self.url, self.password_file)


class Broker(Section):
    """Valkey or Redis; holds nothing that matters."""

    url: str = "redis://127.0.0.1:6379/0"
    password_file: Path | None = None

    def address(self) -> str:
        """Return the URL with the password in it. Raises SecretFileError."""
        return with_password(self.url, self.password_file)


class NetBox(Section):
    """NetBox and what it calls back with."""

    url: str = "http://127.0.0.1:8000"
    token_file: Path | None = None
    ca_file: Path | None = None
    webhook_secret_file: Path | None = None
    timeout: Seconds = 20.0


class Tinkerbell(Section):
    """The Kubernetes API that Tinkerbell and Rufio live on."""

    kubeconfig: Path | None = None
    namespace: str = "tinkerbell"
    timeout: Seconds = 20.0


class Spire(Section):
    """The SPIRE server whose agents prove themselves with LDevIDs; where it is not set, nothing is banned."""

    trust_domain: str = ""
    program: str = "spire-server"
    socket: Path = Path("/tmp/spire-server/private/api.sock")  # noqa: S108 -- SPIRE's own default
    agent_path: str = "/spire/agent/tpm_devid/{fingerprint}"
    """As the server's `agent_path_template` makes it; {fingerprint} is the SHA-1 of the LDevID certificate."""

    @field_validator("agent_path")
    @classmethod
    def _names_the_certificate(cls, path: str) -> str:
        if not path.startswith("/") or path.replace("{fingerprint}", "").count("{") or "{fingerprint}" not in path:
            raise ValueError("a path that begins with / and holds {fingerprint} and no other brace")
        return path


class MachineListener(Section):
    """HTTPS for machines."""

    host: str = "::"
    port: Port = 7443
    certificate: Path | None = None
    key: Path | None = None
    ca_file: Path | None = None
    """What machines check the server certificate with, PEM; fleetd's own root where it is not set."""
    names: tuple[str, ...] = ()
    """Host names and addresses of fleetd's own server certificate, beside that of the public URL."""
    public_url: str = "https://127.0.0.1:7443"
    """What machines are told to call."""
    processes: int = Field(default=1, ge=1, le=64)


class InsideListener(Section):
    """HTTP for NetBox's webhook, metrics and readiness."""

    host: str = "127.0.0.1"
    port: Port = 7080


class Token(Section):
    """A PKCS#11 token that holds the keys of the issuing CAs."""

    module: Path
    """The token's PKCS#11 library."""
    label: str
    """The token's label."""
    pin_file: Path
    """Holds the user PIN."""


class Authority(Section):
    """Keys and certificates of fleetd itself."""

    organization: str = "fleetd"

    directory: Path = Path("/var/lib/fleetd/ca")
    server_key_file: Path = Path("/var/lib/fleetd/server.key")
    """32 random bytes or more: seals challenges, derives session keys, keys the hashes of tickets."""
    crl_url: str = ""
    """Where relying parties fetch CRLs; empty: the public URL."""
    pkcs11: Token | None = None
    """`{module, label, pin_file}` of the PKCS#11 token that holds the keys of the issuing CAs instead of files; set it before `fleetd ca init`."""


def shipped(name: str) -> Path:
    """Return where the wheel puts what an owner may copy: under `share/fleetd` of the installation."""
    return Path(sys.prefix) / "share" / "fleetd" / name


class Paths(Section):
    """Directories that the owner fills; Templates and Workflows come with the wheel."""

    classes_file: Path = Path("/etc/fleetd/classes.json")
    roots: Path = Path("/etc/fleetd/ek-roots")
    secrets: Path = Path("/etc/fleetd/secrets")
    templates: Path = Field(default_factory=lambda: shipped("templates"))
    """Of seeds; default: `share/fleetd/templates` of the installation."""
    workflows: Path = Field(default_factory=lambda: shipped("workflows"))
    """Tinkerbell Templates; default: `share/fleetd/workflows` of the installation."""


class KeaSubnet(Section):
    """One subnet of Kea whose reservations fleetd keeps."""

    prefix: Annotated[IPv4Network, BeforeValidator(lambda text: ip_network(str(text)))]
    file: Path
    """What Kea's configuration includes as `reservations` of this subnet; fleetd writes it."""


class Kea(Section):
    """DHCP reservations; fleetd keeps none where no subnet is named."""

    control_socket: Path | None = None
    """Kea's UNIX control socket; without it somebody else makes Kea read its files again."""
    subnets: tuple[KeaSubnet, ...] = ()
    """Each with its `prefix` and the `file` that fleetd writes and Kea's configuration includes as the subnet's
    `reservations`."""
    timeout: Seconds = 30.0

    @field_validator("subnets")
    @classmethod
    def _each_once(cls, subnets: tuple[KeaSubnet, ...]) -> tuple[KeaSubnet, ...]:
        for name in ("prefix", "file"):
            if len({getattr(one, name) for one in subnets}) != len(subnets):
                raise ValueError(f"two subnets have one {name}")
        return subnets


class Intervals(Section):
    """Seconds between what is done again and again."""

    sweep: Seconds = 15.0
    poll: Seconds = 10.0
    look: Seconds = 5.0
    """Of a run that nothing wakes."""
    report: Seconds = 5.0
    full_read: Seconds = 3600.0
    """Of all declarations."""
    check: Seconds = 3600.0
    """Boot checks."""
    challenge: Seconds = 300.0
    """Life of a challenge for an enrollment or a redemption."""
    replay_window: Seconds = 600.0
    """How long a lost answer to a redemption is repeated."""
    lease: Seconds = 120.0


class Waits(Section):
    """Times of the engine that no class sets, in seconds."""

    slow_look: Seconds = 60.0
    job: Seconds = 180.0
    job_pause: Seconds = 30.0
    refusal_pauses: tuple[Seconds, ...] = (60.0, 300.0, 1800.0)
    silence: Seconds = 120.0
    evidence: Seconds = 60.0
    tidy: Seconds = 86400.0
    power_off_after_failure: Seconds = 1800.0
    leave: Seconds = 300.0
    late_after: float = Field(default=2.5, ge=1.0)
    """Check intervals until a machine is late."""
    lost_after: Seconds = 86400.0
    clock_settles: Seconds = 300.0
    """After the host's clock was set, nothing destructive starts and nothing is issued for so long."""
    approval_pause: Seconds = 3.0
    """The first pause of a machine whose endorsement key waits for a person; it grows with the wait."""
    longest_approval_pause: float = Field(default=300.0, gt=0, le=1800.0)
    approval_pause_share: float = Field(default=0.025, ge=0.0, le=1.0)
    """The pause as a share of how long the key has waited: 0.025 asks every 3 s at first, every 15 s after 10 min."""

    @model_validator(mode="after")
    def _pauses_in_order(self) -> Self:
        if self.longest_approval_pause < self.approval_pause:
            raise ValueError("longest_approval_pause is shorter than approval_pause")
        return self


class Caps(Section):
    """Bounds on what the network may ask."""

    calls_per_minute: int = Field(default=240, ge=1)
    """Of one address, all calls of machines together; a shared address (NAT) needs more."""
    calls_in_total_per_minute: int = Field(default=60_000, ge=1)
    connections: int = Field(default=2000, ge=1)
    request_deadline: Seconds = 30.0
    connection_deadline: Seconds = 120.0
    pending_keys: int = Field(default=500, ge=1)
    pending_keys_per_address: int = Field(default=5, ge=1)
    runs: int = Field(default=200, ge=1)
    certificates_per_minute: int = Field(default=600, ge=1)


def _known_deadlines(value: Any) -> Any:
    if isinstance(value, dict):
        unknown = sorted(set(value) - set(DEADLINES))
        if unknown:
            raise ValueError(f"unknown deadlines: {', '.join(map(str, unknown))}; known: {', '.join(DEADLINES)}")
    return value


class Settings(BaseSettings):
    """Everything that fleetd can be told."""

    model_config = SettingsConfigDict(
        env_prefix=_ENVIRONMENT,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
        use_attribute_docstrings=True,
    )

    database: Database = Database()
    broker: Broker = Broker()
    netbox: NetBox = NetBox()
    tinkerbell: Tinkerbell = Tinkerbell()
    spire: Spire = Spire()
    machine: MachineListener = MachineListener()
    inside: InsideListener = InsideListener()
    ca: Authority = Authority()
    paths: Paths = Paths()
    kea: Kea = Kea()
    intervals: Intervals = Intervals()
    waits: Waits = Waits()
    caps: Caps = Caps()
    deadlines: Annotated[dict[str, Seconds], BeforeValidator(_known_deadlines)] = {}
    """Defaults for all classes, in seconds; a class may set its own."""
    trusted_proxies: tuple[Network, ...] = ()
    """Whose X-Forwarded-For counts."""
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    actions_image: str = "fleet-machine:latest"
    """The OCI reference of the action image that Templates name."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file, which arrives as init arguments."""
        del settings_cls
        return env_settings, init_settings

    def timing(self) -> Timing:
        """Return the waits as the engine takes them."""
        waits = self.waits.model_dump()
        late_after, share = waits.pop("late_after"), waits.pop("approval_pause_share")
        pauses = tuple(timedelta(seconds=pause) for pause in waits.pop("refusal_pauses"))
        return Timing(
            refusal_pauses=pauses,
            late_after=late_after,
            approval_pause_share=share,
            look=timedelta(seconds=self.intervals.look),
            check_interval=timedelta(seconds=self.intervals.check),
            **{name: timedelta(seconds=value) for name, value in waits.items()},
        )

    def class_deadlines(self) -> Deadlines:
        """Return the deadlines of a class that sets none."""
        return shortened(Deadlines(), self.deadlines)


def load_settings(path: Path | None = None) -> Settings:
    """Read the file (`--config`, else FLEETD_CONFIG, else the default place) and the environment.

    A file that was named must exist; the default one may be absent. Raises ConfigError with every error by path.
    """
    named = path or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    place = named or DEFAULT_CONFIG
    content: dict[str, Any] = {}
    if named is not None or place.exists():
        content = _toml(place)
    errors = _unknown_variables()
    try:
        settings = Settings(**content)
    except ValidationError as error:
        errors += [f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors()]
    if errors:
        raise ConfigError(tuple(errors))
    return settings


def with_password(url: str, password_file: Path | None) -> str:
    """Return the URL with the password of the file in it. Raises SecretFileError."""
    if password_file is None:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rsplit("@", 1)[-1]
    user = parts.username or ""
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(secret_text(password_file), safe='')}@{host}"))


def secret_problems(settings: Settings) -> tuple[str, ...]:
    """Name every configured secret file that cannot be used."""
    named = {
        "database.password_file": settings.database.password_file,
        "broker.password_file": settings.broker.password_file,
        "netbox.token_file": settings.netbox.token_file,
        "netbox.webhook_secret_file": settings.netbox.webhook_secret_file,
        "ca.server_key_file": settings.ca.server_key_file,
        "machine.key": settings.machine.key,
    }
    return tuple(problem for name, path in named.items() if path and (problem := _problem(name, path)))


def _problem(name: str, path: Path) -> str:

    try:
        read_secret(path)
    except SecretFileError as error:
        return f"{name}: {error}"
    return ""


def effective(settings: Settings) -> dict[str, Any]:
    """Return the values in force as JSON, passwords in URLs hidden."""
    shown: dict[str, Any] = settings.model_dump(mode="json")
    for section in ("database", "broker"):
        shown[section]["url"] = _without_password(shown[section]["url"])
    return shown


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rsplit("@", 1)[-1]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}"))


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError((f"{path}: {error.strerror}",)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError((f"{path}: {error}",)) from error


def _unknown_variables() -> list[str]:
    """Name FLEETD_ variables that mean nothing: a misspelt one must not be ignored silently."""
    known = set(Settings.model_fields)
    errors = []
    for name in sorted(os.environ):
        if name.startswith(_ENVIRONMENT) and name != CONFIG_VARIABLE:
            first = name.removeprefix(_ENVIRONMENT).lower().split("__", 1)[0]
            if first not in known:
                errors.append(f"environment {name}: unknown key {first}")
    return errors
