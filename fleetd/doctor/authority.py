"""Keys and certificates of fleetd itself, and what machines are told to call."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from fleetd.ca.signer import KeyFileError, service_key
from fleetd.ca.tree import Tree, TreeError
from fleetd.config import Settings
from fleetd.core.certificates.profile import Tier
from fleetd.doctor.notes import Notes, broken, good, short, warns
from fleetd.secret_files import SecretFileError, read_secret
from fleetd.wiring import tree_of

_CA, _LISTENER = "authority", "machine listener"
SOON = timedelta(days=90)
"""A new authority takes its time: every machine must learn it first."""
_TLS_SOON = timedelta(days=14)
_SHORTEST_KEY = 32


def authority(settings: Settings) -> Notes:
    """Look at the tree of authorities, and at the keys that the service cannot do without."""
    tree, now = tree_of(settings), datetime.now(UTC)
    yield from _server_key(settings.ca.server_key_file)
    try:
        if not tree.complete:
            yield broken(
                _CA,
                f"keys or certificates are missing in {tree.directory}",
                "Run `fleetd ca init`, or restore the directory from the backup: new keys mean that every machine"
                " must be provisioned again.",
            )
            return
        service_key(tree.service_key_file)
        for tier in Tier:
            yield from _expiry(tree, tier, now)
    except (TreeError, KeyFileError, SecretFileError) as error:
        yield broken(_CA, short(error), "Restore the file from the backup, mode 0600, owned by fleetd's user.")
        return
    if tree.root_key_file.exists():
        yield warns(
            _CA,
            f"the root's key is on this host ({tree.root_key_file})",
            "Move it to a place without a network; it is needed only to make or revoke an issuing authority.",
        )


def _server_key(file: Path) -> Notes:
    try:
        if len(read_secret(file)) < _SHORTEST_KEY:
            yield broken(_CA, f"{file} is shorter than {_SHORTEST_KEY} bytes", "Write 32 random bytes to it.")
    except SecretFileError as error:
        yield broken(
            _CA, f"the server key cannot be used: {error}", "`fleetd ca init` makes it; mode 0600, fleetd's user."
        )


def _expiry(tree: Tree, tier: Tier, now: datetime) -> Notes:
    for issuer in tree.in_force(tier):
        until = issuer.certificate.not_valid_after_utc
        if until <= now:
            yield broken(
                _CA,
                f"authority {issuer.name} expired on {until:%Y-%m-%d}",
                f"Run `fleetd ca rotate begin {tier.value}`.",
            )
        elif until <= now + SOON:
            yield warns(
                _CA,
                f"authority {issuer.name} expires on {until:%Y-%m-%d}",
                f"Run `fleetd ca rotate begin {tier.value}`.",
            )
        else:
            yield good(_CA, f"authority {issuer.name} until {until:%Y-%m-%d}")


def listener(settings: Settings) -> Notes:
    """Look at what machines are told to call, and at an owner's own TLS files."""
    wanted = settings.machine
    host = urlsplit(wanted.public_url).hostname or ""
    if _loopback(host):
        yield broken(
            _LISTENER,
            f"machine.public_url is {wanted.public_url}: each machine would call itself",
            "Set it to the address by which machines reach this host.",
        )
    if urlsplit(wanted.public_url).scheme != "https":
        yield broken(_LISTENER, "machine.public_url is not https", "Machines are served by TLS only: write https://.")
    if (wanted.certificate is None) != (wanted.key is None):
        yield broken(_LISTENER, "only one of machine.certificate and machine.key is set", "Set both, or neither.")
    elif wanted.certificate is not None and wanted.key is not None:
        yield from _own_files(wanted.certificate, wanted.key, host)
        if wanted.ca_file is None:
            yield broken(
                _LISTENER,
                "machine.certificate is yours, but machine.ca_file is not set",
                "Set it to the CA of that certificate: machines trust what stands there.",
            )


def _own_files(certificate_file: Path, key: Path, host: str) -> Notes:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate_file, key)
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    except (OSError, ValueError) as error:
        yield broken(_LISTENER, f"certificate and key cannot be used: {short(error)}", "Correct the two files.")
        return
    until = certificate.not_valid_after_utc
    if until <= datetime.now(UTC) + _TLS_SOON:
        yield broken(_LISTENER, f"its certificate ends on {until:%Y-%m-%d}", "Renew it; fleetd follows the file.")
    if host and not _names(certificate, host):
        yield broken(
            _LISTENER, f"its certificate does not name {host}", "Issue one that names the host of machine.public_url."
        )


def _names(certificate: x509.Certificate, host: str) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    hosts = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    return host in addresses or host.lower() in hosts or f"*.{host.partition('.')[2]}" in hosts


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
