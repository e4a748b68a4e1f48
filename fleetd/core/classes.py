"""What is installed on a machine and what is demanded of it: `classes.json` as values."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.policy import (
    DEFAULT_PCRS,
    AllowedEvent,
    AllowRule,
    AttestationPolicy,
    CheckPolicy,
    EkCertificate,
    InstallBoot,
    InstallPolicy,
    SecureBoot,
    policy_problems,
)
from fleetd.core.class_schema import CLASSES_SCHEMA
from fleetd.core.names import Family
from fleetd.core.strict_schema import problems


@dataclass(frozen=True, slots=True)
class Image:
    """The disk image; sha256 and size are of the raw bytes."""

    url: str
    sha256: str
    size: int
    sector_size: int = 512
    compression: str = "none"
    signature_key: str = ""


@dataclass(frozen=True, slots=True)
class DiskRules:
    """What the declared disk must be, in bytes, and how it is erased."""

    min_size: int = 0
    erase: str = "quick"
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndorsementRules:
    """What is demanded of endorsement keys beyond a chain to a pinned root."""

    manufacturers: tuple[str, ...] = ()
    """TPM manufacturer codes that are admitted; all where empty."""
    allow_roca: bool = False


@dataclass(frozen=True, slots=True)
class SeedRules:
    """How the seed is rendered."""

    template: str = ""
    secrets: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    profile: str = ""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    devid_folder: str = ""
    """Where the node keeps the LDevID's files for SPIRE or a VPN; nowhere where empty."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many may be out of service: a number, or a part of 100 when `percent`."""

    max_unavailable: int | None = None
    min_available: int | None = None
    percent: bool = False

    def __str__(self) -> str:
        amount = self.max_unavailable if self.max_unavailable is not None else self.min_available
        name = "max_unavailable" if self.max_unavailable is not None else "min_available"
        return f"{name} {amount}{'%' if self.percent else ''}"

    def room(self, total: int) -> int:
        """Return how many of `total` may be out of service at once, rounded to the safe side."""
        if self.max_unavailable is not None:
            return total * self.max_unavailable // 100 if self.percent else self.max_unavailable
        floor = self.min_available or 0
        return max(0, total - (-(-total * floor // 100) if self.percent else floor))


@dataclass(frozen=True, slots=True)
class PowerQuirks:
    """How the BMCs of a class depart from what Redfish promises."""

    off_before_boot_device: bool = False
    """The boot device is taken only while the machine is seen off: off is a job of its own, and verified."""
    boot_device_lost_on_reset: bool = False
    """A reset on the way forgets the boot device: a machine that stays silent is started from the network once more."""
    report_delay: timedelta = timedelta()
    """How long the BMC goes on telling the old power state."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each step may take."""

    power: timedelta = timedelta(minutes=10)
    netboot: timedelta = timedelta(minutes=15)
    netboot_by_hand: timedelta = timedelta(days=7)
    attest: timedelta = timedelta(minutes=15)
    approval: timedelta = timedelta(days=3)
    intent_approval: timedelta = timedelta(days=7)
    budget: timedelta = timedelta(days=7)
    stall: timedelta = timedelta(minutes=15)
    action: timedelta = timedelta(minutes=10)
    hand_over: timedelta = timedelta(minutes=15)
    configure: timedelta | None = None

    def to_configure(self, family: Family) -> timedelta:
        """Return the time from reboot to redemption: Talos retries for three hours by itself."""
        return self.configure or timedelta(hours=4 if family is Family.TALOS else 1)


@dataclass(frozen=True, slots=True)
class MachineClass:
    """One entry of `classes.json`."""

    slug: str
    family: Family
    digest: str
    """SHA-256 of the canonical entry, hex: another digest means that installed machines may differ."""
    attestation: AttestationPolicy | None
    """None only where the class is not installable."""
    description: str = ""
    installable: bool = True
    reason: str = ""
    role: str = ""
    architecture: str = "amd64"
    image: Image | None = None
    disk: DiskRules = field(default_factory=DiskRules)
    endorsement: EndorsementRules = field(default_factory=EndorsementRules)
    allow_secrets_in_network_trusted: bool = False
    certificate_lifetime: timedelta = timedelta(days=365)
    seed: SeedRules = field(default_factory=SeedRules)
    two_person: bool = False
    budget: Budget | None = None
    secure_boot: bool = False
    bmc_required: bool = False
    quirks: PowerQuirks = field(default_factory=PowerQuirks)
    keep_on_failure: bool = False
    deadlines: Deadlines = field(default_factory=Deadlines)

    @property
    def may_deliver_secrets(self) -> bool:
        """Whether HookOS may be given a seed or a ticket."""
        if self.attestation is None:
            return False
        return self.attestation.install.boot is InstallBoot.JUDGED or self.allow_secrets_in_network_trusted

    @property
    def warning(self) -> str:
        """Say what an owner of such a machine should know, or nothing."""
        rules = self.attestation
        if rules is None or rules.install.boot is InstallBoot.JUDGED:
            return ""
        text = "The TPM proves which machine asks, not which system runs on it while it is installed (network-trusted)."
        if self.allow_secrets_in_network_trusted:
            text += " Secrets are delivered there all the same."
        return text

    def as_report(self) -> dict[str, Any]:
        """Return the class as NetBox is told of it."""
        return {
            "slug": self.slug,
            "family": self.family.value,
            "installable": self.installable,
            "reason": self.reason,
            "two_person": self.two_person,
            "role": self.role,
            "digest": self.digest,
            "warning": self.warning,
        }


@dataclass(frozen=True, slots=True)
class TagRules:
    """What is demanded of every machine with a NetBox tag, on top of what its class demands."""

    budget: Budget | None = None
    two_person: bool = False


@dataclass(frozen=True, slots=True)
class ClassBook:
    """All classes in force, by slug."""

    classes: Mapping[str, MachineClass]
    digest: str = ""
    tags: Mapping[str, TagRules] = field(default_factory=dict)
    """What is demanded of all machines with a NetBox tag, by its slug."""

    def get(self, slug: str) -> MachineClass | None:
        """Return the class, or None where it is unknown."""
        return self.classes.get(slug)

    def __iter__(self) -> Iterator[MachineClass]:
        return iter(self.classes.values())

    def __len__(self) -> int:
        return len(self.classes)


@dataclass(frozen=True, slots=True)
class ClassError:
    """One thing wrong in the file."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class ClassesInvalidError(ValueError):
    """The file cannot be used; `errors` names everything that is wrong."""

    def __init__(self, errors: tuple[ClassError, ...]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


def parse_classes(data: Any, deadlines: Deadlines | None = None) -> ClassBook:
    """Return the book that the JSON value describes; `deadlines` are the defaults of the service.

    Raises ClassesInvalidError with every error and its path.
    """
    errors = [ClassError(path, message) for path, message in problems(CLASSES_SCHEMA, data)]
    if not errors:
        errors = [error for index, entry in enumerate(data["classes"]) for error in _entry_errors(index, entry)]
        errors += _repeated_names(data["classes"])
    if errors:
        raise ClassesInvalidError(tuple(sorted(errors, key=lambda error: error.path)))
    classes = {entry["name"]: _machine_class(entry, deadlines or Deadlines()) for entry in data["classes"]}
    tags = {slug: _tag_rules(entry) for slug, entry in data.get("tags", {}).items()}
    return ClassBook(classes=classes, digest=_digest(data["classes"]), tags=tags)


def differences(old: ClassBook, new: ClassBook) -> tuple[str, ...]:
    """Say in one sentence each which classes came, went or changed."""
    gone = [f"{slug}: removed" for slug in sorted(old.classes.keys() - new.classes.keys())]
    come = [f"{slug}: added" for slug in sorted(new.classes.keys() - old.classes.keys())]
    changed = [
        f"{slug}: changed ({old.classes[slug].digest[:12]} -> {new.classes[slug].digest[:12]})"
        for slug in sorted(old.classes.keys() & new.classes.keys())
        if old.classes[slug].digest != new.classes[slug].digest
    ]
    return tuple(gone + come + changed)


def _entry_errors(index: int, entry: Mapping[str, Any]) -> Iterator[ClassError]:
    at = f"$.classes[{index}]"
    if not entry.get("installable", True):
        if not entry.get("reason"):
            yield ClassError(f"{at}.reason", "a class that is not installable says why")
        return
    for needed in ("image", "attestation"):
        if needed not in entry:
            yield ClassError(f"{at}.{needed}", "an installable class needs it")
    if entry["family"] in {"cloud-init-nocloud", "talos"} and "template" not in entry.get("seed", {}):
        yield ClassError(f"{at}.seed.template", f"the family {entry['family']} needs a template")
    if entry["family"] == "talos" and not entry.get("seed", {}).get("devid_folder", "/etc/").startswith("/etc/"):
        yield ClassError(f"{at}.seed.devid_folder", "Talos keeps files below /etc/ only")
    yield from _attestation_errors(f"{at}.attestation", entry.get("attestation", {}))


def _attestation_errors(at: str, rules: Mapping[str, Any]) -> Iterator[ClassError]:
    if not rules:
        return
    for problem in policy_problems(_attestation(rules)):
        where, _, what = problem.partition(": ")
        yield ClassError(f"{at}.{where}" if what else at, what or where)
    install, check = rules["install"], rules.get("check", {})
    if install["boot"] == "network-trusted" and install.get("allow"):
        yield ClassError(f"{at}.install.allow", "network-trusted judges nothing: allow has no effect")
    both = sorted(set(check.get("baseline", ())) & set(check.get("report_only", ())))
    if both:
        yield ClassError(f"{at}.check", f"PCR {both} are both in baseline and report_only")


def _repeated_names(entries: list[dict[str, Any]]) -> Iterator[ClassError]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry["name"] in seen:
            yield ClassError(f"$.classes[{index}].name", f"{entry['name']} stands twice")
        seen.add(entry["name"])


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _machine_class(entry: Mapping[str, Any], defaults: Deadlines) -> MachineClass:
    seed = entry.get("seed", {})
    disk = entry.get("disk", {})
    boot = entry.get("boot", {})
    rules = entry.get("attestation", {})
    lifetime = entry.get("certificates", {}).get("lifetime")
    return MachineClass(
        slug=entry["name"],
        family=Family(entry["family"]),
        digest=_digest(entry),
        attestation=_attestation(entry["attestation"]) if "attestation" in entry else None,
        endorsement=EndorsementRules(
            manufacturers=tuple(rules.get("manufacturers", ())), allow_roca=rules.get("allow_roca", False)
        ),
        allow_secrets_in_network_trusted=rules.get("allow_secrets_in_network_trusted", False),
        description=entry.get("description", ""),
        installable=entry.get("installable", True),
        reason=entry.get("reason", ""),
        role=entry.get("role", ""),
        architecture=entry.get("architecture", "amd64"),
        image=Image(**entry["image"]) if "image" in entry else None,
        disk=DiskRules(disk.get("min_size", 0), disk.get("erase", "quick"), tuple(disk.get("fallback", ()))),
        certificate_lifetime=timedelta(seconds=lifetime) if lifetime else timedelta(days=365),
        seed=SeedRules(**{**seed, "secrets": tuple(seed.get("secrets", ()))}),
        two_person=_two_person(entry),
        budget=_budget(entry),
        secure_boot=boot.get("secure_boot", False),
        bmc_required=boot.get("bmc", "optional") == "required",
        quirks=_quirks(boot.get("quirks", {})),
        keep_on_failure=entry.get("keep_on_failure", False),
        deadlines=shortened(defaults, entry.get("deadlines", {})),
    )


def shortened(defaults: Deadlines, seconds: Mapping[str, float]) -> Deadlines:
    """Return the deadlines with those given, in seconds, in place of the defaults."""
    names = Deadlines.__dataclass_fields__
    values = {name: getattr(defaults, name) for name in names}
    return Deadlines(**{**values, **{name: timedelta(seconds=value) for name, value in seconds.items()}})


def _attestation(rules: Mapping[str, Any]) -> AttestationPolicy:
    install, check = rules["install"], rules.get("check", {})
    pcrs = rules.get("pcrs", {})
    default = CheckPolicy()
    return AttestationPolicy(
        install=InstallPolicy(
            boot=InstallBoot(install["boot"]),
            secure_boot=SecureBoot(install.get("secure_boot", "optional")),
            allow=_allowed(install.get("allow", ())),
        ),
        check=CheckPolicy(
            baseline=tuple(sorted(check.get("baseline", default.baseline))),
            report_only=tuple(sorted(check.get("report_only", default.report_only))),
            secure_boot=SecureBoot(check.get("secure_boot", "optional")),
            allow=_allowed(check.get("allow", ())),
        ),
        bank=Bank(pcrs.get("bank", "sha256")),
        select=tuple(sorted(pcrs.get("select", DEFAULT_PCRS))),
        ek_certificate=EkCertificate(rules.get("ek_certificate", "required")),
    )


def _allowed(entries: Any) -> tuple[AllowRule, ...]:
    return tuple(
        AllowRule(
            event=AllowedEvent(entry["event"]) if "event" in entry else None,
            digest=bytes.fromhex(entry["digest"]) if "digest" in entry else None,
            authority=bytes.fromhex(entry["authority"]) if "authority" in entry else None,
        )
        for entry in entries
    )


def _quirks(entry: Mapping[str, Any]) -> PowerQuirks:
    delay = timedelta(seconds=entry.get("report_delay", 0))
    return PowerQuirks(entry.get("off_before_boot_device", False), entry.get("boot_device_lost_on_reset", False), delay)


def _tag_rules(entry: Mapping[str, Any]) -> TagRules:
    return TagRules(_budget(entry), _two_person(entry))


def _two_person(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("approval", {}).get("two_person", False))


def _budget(entry: Mapping[str, Any]) -> Budget | None:
    if "budget" not in entry:
        return None
    ((name, amount),) = entry["budget"].items()
    percent = isinstance(amount, str)
    number = int(amount.rstrip("%")) if percent else amount
    return Budget(percent=percent, **{name: number})
