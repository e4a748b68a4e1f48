"""The tree of authorities on disk: an offline root, three issuers, the service key, and fleetd's own TLS certificate."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding

from fleetd.ca.files import one_changes, replace_file
from fleetd.ca.generations import SERVICE, Generations, TreeError, file_name, read_generations
from fleetd.ca.key_store import FileKeys, KeyStore
from fleetd.ca.service_keys import key_files
from fleetd.ca.signer import FileSigner, KeyFileError, Signer, service_key, write_key
from fleetd.core.certificates.profile import (
    BACKDATED,
    CaRequest,
    ServerRequest,
    Tier,
    ca_builder,
    server_builder,
)
from fleetd.ports import RandomSource
from fleetd.secret_files import SecretFileError

__all__ = [
    "Issuer",
    "Tree",
    "TreeError",
    "general_name",
    "keep_server_certificate",
    "make_authority",
    "make_tree",
    "new_serial",
    "replace_file",
    "signed_by",
]

LIVES: Final = {
    Tier.ROOT: timedelta(days=20 * 365),
    Tier.DEVID: timedelta(days=5 * 365),
    Tier.AK: timedelta(days=5 * 365),
    Tier.SERVER: timedelta(days=5 * 365),
}
SERVER_LIFE: Final = timedelta(days=90)
ISSUERS: Final = (Tier.DEVID, Tier.AK, Tier.SERVER)


@dataclass(frozen=True)
class Issuer:
    """One authority: its certificate and what signs for it."""

    tier: Tier
    name: str
    """The tier, with the number of the generation from the second on: `devid`, `devid-2`."""
    certificate: x509.Certificate
    signer: Signer

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate, lower-case hex."""
        return sha256(self.certificate.public_bytes(Encoding.DER)).hexdigest()


@dataclass(frozen=True)
class Tree:
    """The authorities of one fleetd."""

    directory: Path
    token: KeyStore | None = None
    """Holds the keys of the issuing CAs; None where they lie in files. The root's key is a file that goes offline."""

    def issuer(self, tier: Tier) -> Issuer:
        """Return the authority of a tier that issues. Raises TreeError when it is not there."""
        return self._authority(tier, self.generations(tier).active)

    def in_force(self, tier: Tier) -> tuple[Issuer, ...]:
        """Return the trusted authorities of a tier, the one that issues first. Raises TreeError."""
        return tuple(self._authority(tier, number) for number in self.generations(tier).in_force)

    def retired(self, tier: Tier) -> tuple[Issuer, ...]:
        """Return the authorities of a tier that are trusted no longer. Raises TreeError."""
        return tuple(self._authority(tier, number) for number in self.generations(tier).retired)

    def named(self, name: str) -> Issuer | None:
        """Return the authority of a name that is or was in force; None where there is none. Raises TreeError."""
        known = (each for tier in Tier for each in (*self.in_force(tier), *self.retired(tier)))
        return next((each for each in known if each.name == name), None)

    def generations(self, tier: Tier) -> Generations:
        """Return which generations of a tier are in force. Raises TreeError."""
        return read_generations(self.directory, tier)

    def certificate(self, tier: Tier) -> x509.Certificate:
        """Return the certificate of the authority of a tier that issues. Raises TreeError."""
        return self.issuer(tier).certificate

    def chain(self, tier: Tier) -> tuple[x509.Certificate, ...]:
        """Return the certificates of the trusted authorities of a tier, and the root's. Raises TreeError."""
        return (*(issuer.certificate for issuer in self.in_force(tier)), self.certificate(Tier.ROOT))

    def keys(self, tier: Tier) -> KeyStore:
        """Return where the keys of a tier lie."""
        return FileKeys(self.directory) if tier is Tier.ROOT or self.token is None else self.token

    def certificate_file(self, tier: Tier, generation: int) -> Path:
        """Return where the certificate of an authority lies."""
        return self.directory / f"{file_name(tier, generation)}.pem"

    def _authority(self, tier: Tier, generation: int) -> Issuer:
        path, name = self.certificate_file(tier, generation), file_name(tier, generation)
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except OSError as error:
            raise TreeError(f"{path}: {error.strerror}; run `fleetd ca init`") from error
        except ValueError as error:
            raise TreeError(f"{path}: not a certificate") from error
        return Issuer(tier, name, certificate, self.keys(tier).signer(name))

    @property
    def root_key_file(self) -> Path:
        """Where the root's key lies while it is on this host."""
        return self.directory / "root.key"

    def root_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the root's key while it is on this host.

        Raises TreeError, SecretFileError, and KeyFileError for the key of another root.
        """
        key = FileSigner(self.root_key_file).private_key()
        if key.public_key() != self.certificate(Tier.ROOT).public_key():
            raise KeyFileError(
                f"{self.root_key_file} is not the key of {self.certificate_file(Tier.ROOT, 1)}: bring back this fleet's own"
            )
        return key

    @property
    def root_list_file(self) -> Path:
        """Where the root's revocation list lies, DER."""
        return self.directory / "root.crl"

    @property
    def service_key_file(self) -> Path:
        """Where the service key that signs lies. Raises TreeError."""
        return key_files(self.directory, read_generations(self.directory, SERVICE))[0]

    @property
    def server_files(self) -> tuple[Path, Path]:
        """Where fleetd's own TLS certificate (with chain) and key lie."""
        return self.directory / "tls.pem", self.directory / "tls.key"

    @property
    def complete(self) -> bool:
        """Whether everything that `init` makes is there, but for the root's key, which belongs elsewhere.

        Raises TreeError, and KeyFileError and SecretFileError of a token that cannot be asked.
        """
        active = {tier: self.generations(tier).active for tier in Tier}
        certificates = (self.certificate_file(tier, number) for tier, number in active.items())
        return all(file.exists() for file in (*certificates, self.service_key_file)) and all(
            self.keys(tier).exists(file_name(tier, active[tier])) for tier in ISSUERS
        )


def make_tree(
    directory: Path,
    organization: str,
    crl_url: str,
    now: datetime,
    random: RandomSource,
    token: KeyStore | None = None,
) -> Tree:
    """Make root, issuers and service key; what is there already stays, and is tried out.

    Raises TreeError for a half-made tree that cannot be completed, KeyFileError and SecretFileError for a key that is there
    and cannot be used.
    """
    tree = Tree(directory, token)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not tree.complete:
            with one_changes(directory):
                _make_missing(tree, organization, crl_url, now, random)
    except OSError as error:
        raise TreeError(f"{error.filename or directory}: {error.strerror or error}") from error
    for tier in ISSUERS:
        _try_out(tree.issuer(tier))
    service_key(tree.service_key_file)
    return tree


def _make_missing(tree: Tree, organization: str, crl_url: str, now: datetime, random: RandomSource) -> None:
    make_authority(tree, Tier.ROOT, 1, organization, "", now, random)
    for tier in ISSUERS:
        list_url = f"{crl_url}/v1/crl/root" if crl_url else ""
        make_authority(tree, tier, tree.generations(tier).active, organization, list_url, now, random)
    if not tree.service_key_file.exists():
        write_key(tree.service_key_file, ed25519.Ed25519PrivateKey.generate())


def _try_out(issuer: Issuer) -> None:
    try:
        key = issuer.signer.private_key()
    except (KeyFileError, SecretFileError) as error:
        raise TreeError(
            f"{error}: restore the key of {issuer.name} from the backup, or replace the authority with "
            f"`fleetd ca rotate begin {issuer.tier}`"
        ) from error
    if key.public_key() != issuer.certificate.public_key():
        raise TreeError(f"the key of {issuer.name} is not that of its certificate: restore both from the backup")


def make_authority(
    tree: Tree, tier: Tier, generation: int, organization: str, list_url: str, now: datetime, random: RandomSource
) -> None:
    """Make key and certificate of one authority, signed by the root; a certificate that is there stays.

    Raises TreeError when the root's key is needed and not here; KeyFileError and SecretFileError when a key cannot be used.
    """
    certificate_file, name, keys = tree.certificate_file(tier, generation), file_name(tier, generation), tree.keys(tier)
    if certificate_file.exists():
        return
    root = None if tier is Tier.ROOT else tree.certificate(Tier.ROOT)
    if root is not None and not tree.root_key_file.exists():
        raise TreeError(
            f"{certificate_file} is missing and the root's key is not here: bring root.key back to {tree.directory}"
        )
    root_key = None if root is None else tree.root_key()
    if not keys.exists(name):
        if tier is Tier.ROOT:
            write_key(tree.root_key_file, ec.generate_private_key(ec.SECP384R1()))
        else:
            keys.make(name)
    key = keys.signer(name).private_key()
    until = now + LIVES[tier] if root is None else min(now + LIVES[tier], root.not_valid_after_utc)
    request = CaRequest(
        tier, organization, key.public_key(), now - BACKDATED, until, new_serial(random), list_url, generation
    )
    made = ca_builder(request, root).sign(root_key or key, SHA384())
    replace_file(certificate_file, made.public_bytes(Encoding.PEM))


def keep_server_certificate(tree: Tree, names: Iterable[str], now: datetime, random: RandomSource) -> bool:
    """See that fleetd's TLS certificate names these hosts and is not past two thirds of its life; tell whether it was renewed.

    Raises TreeError, KeyFileError and SecretFileError where it cannot be renewed; the one before stays in its place.
    """
    wanted = tuple(general_name(name) for name in dict.fromkeys(names))
    if _server_certificate_serves(tree, wanted, now):
        return False
    try:
        with one_changes(tree.directory):
            if _server_certificate_serves(tree, wanted, now):  # another process renewed it while this one waited
                return False
            _renew_server_certificate(tree, wanted, now, random)
    except OSError as error:
        raise TreeError(f"{tree.directory}: {error.strerror or error}") from error
    return True


def _server_certificate_serves(tree: Tree, wanted: tuple[x509.GeneralName, ...], now: datetime) -> bool:
    certificate_file, key_file = tree.server_files
    issuer = tree.issuer(Tier.SERVER)
    if not key_file.exists():
        return False
    key = FileSigner(key_file).private_key()
    return _still_good(certificate_file, key, wanted, now) and signed_by(certificate_file, issuer.certificate)


def _renew_server_certificate(
    tree: Tree, wanted: tuple[x509.GeneralName, ...], now: datetime, random: RandomSource
) -> None:
    certificate_file, key_file = tree.server_files
    issuer = tree.issuer(Tier.SERVER)
    if not key_file.exists():
        write_key(key_file, ec.generate_private_key(ec.SECP256R1()))
    key = FileSigner(key_file).private_key()
    refuse_out_of_date(issuer, now)
    request = ServerRequest(wanted, key.public_key(), now - BACKDATED, now + SERVER_LIFE, new_serial(random))
    made = server_builder(request, issuer.certificate).sign(issuer.signer.private_key(), SHA256())
    try:
        made.verify_directly_issued_by(issuer.certificate)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise TreeError(
            f"the key of {issuer.name} is not that of its certificate: restore both from the backup"
        ) from error
    pem = made.public_bytes(Encoding.PEM) + issuer.certificate.public_bytes(Encoding.PEM)
    replace_file(certificate_file, pem)


def refuse_out_of_date(issuer: Issuer, now: datetime) -> None:
    """Refuse to sign with an authority that is not in force by this host's clock. Raises TreeError."""
    begin, end = issuer.certificate.not_valid_before_utc, issuer.certificate.not_valid_after_utc
    if not begin <= now < end:
        raise TreeError(
            f"{issuer.name} is in force from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}, and this host's clock says "
            f"{now:%Y-%m-%d %H:%M}: set the clock, or replace the authority with `fleetd ca rotate begin {issuer.tier}`"
        )


def _still_good(
    certificate_file: Path, key: ec.EllipticCurvePrivateKey, wanted: tuple[x509.GeneralName, ...], now: datetime
) -> bool:
    try:
        present = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        names = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    life = present.not_valid_after_utc - present.not_valid_before_utc
    due = present.not_valid_before_utc + life * 2 / 3
    # One of a time when the clock was ahead is not in force yet: it is made anew.
    in_time = present.not_valid_before_utc <= now < due
    return present.public_key() == key.public_key() and set(names) == set(wanted) and in_time


def signed_by(certificate_file: Path, issuer: x509.Certificate) -> bool:
    """Tell whether the first certificate of a PEM file is there and signed by the issuer."""
    try:
        x509.load_pem_x509_certificate(certificate_file.read_bytes()).verify_directly_issued_by(issuer)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    return True


def general_name(text: str) -> x509.GeneralName:
    """Return an IP address or a DNS name as a certificate names it."""
    try:
        return x509.IPAddress(ip_address(text.strip("[]")))
    except ValueError:
        return x509.DNSName(text)


def new_serial(random: RandomSource) -> int:
    """Return a serial number of 128 random bits, positive."""
    return int.from_bytes(random.bytes(16)) | 1 << 127
