"""The two listeners, wired from the configuration."""

from pathlib import Path

import structlog
import typer
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import TreeError, keep_server_certificate
from fleetd.cli.metrics import exporter
from fleetd.cli.wakes import hint_of, waker
from fleetd.config import Settings
from fleetd.http.inside import InsideParts, inside_app
from fleetd.http.machine import MachineParts, machine_app
from fleetd.http.server import Listening, run_listeners
from fleetd.http.tls import FollowedTls
from fleetd.logs import log_as_json
from fleetd.secret_files import SecretFileError, secret_text
from fleetd.wiring import Parts

_log = structlog.get_logger(__name__)


def run_here(settings: Settings) -> None:
    """Run both listeners in this process."""
    log_as_json(settings.log_level)
    try:
        run_listeners(listeners(settings))
    except (OSError, SecretFileError, TreeError, ValueError) as error:
        typer.echo(f"fleetd serve: {error}", err=True)
        raise SystemExit(1) from error


def listeners(settings: Settings) -> tuple[Listening, Listening]:
    """Return both listeners. Raises SecretFileError, TreeError and ValueError where something is missing."""
    wakes = waker()
    parts = Parts(settings, wake=wakes.wake)
    machine = MachineParts(
        exchange=parts.exchange,
        publication=parts.publication,
        trusted_proxies=settings.trusted_proxies,
        calls_per_minute=settings.caps.calls_per_minute,
        calls_in_total_per_minute=settings.caps.calls_in_total_per_minute,
        deadline=settings.caps.request_deadline,
    )
    tls = FollowedTls(*tls_files(parts), parts.clock.now)
    secret = settings.netbox.webhook_secret_file
    inside = InsideParts(
        hint=hint_of(wakes, parts.sessions, parts.clock),
        metrics=exporter(parts).exposition,
        ready=lambda: [*problems(parts), *filter(None, [tls.problem])],
        webhook_secret=secret_text(secret).encode() if secret else None,
        deadline=settings.caps.request_deadline,
    )
    caps = settings.caps
    outer, inner = settings.machine, settings.inside
    return (
        Listening(machine_app(machine), outer.host, outer.port, caps.connections, caps.connection_deadline, tls),
        Listening(inside_app(inside), inner.host, inner.port, 200, caps.connection_deadline),
    )


def tls_files(parts: Parts) -> tuple[Path, Path]:
    """Return certificate and key of the machine listener: the owner's, or fleetd's own, renewed when it is due."""
    configured = parts.settings.machine
    if configured.certificate is not None and configured.key is not None:
        return configured.certificate, configured.key
    try:
        keep_server_certificate(parts.tree, parts.server_names, parts.clock.now(), parts.random)
    except (TreeError, KeyFileError, SecretFileError) as error:
        if not parts.tree.server_files[0].exists():
            raise
        # It is renewed long before its end: the one at hand serves until then.
        _log.error("fleetd's own TLS certificate cannot be renewed; the one before stays", error=str(error))
    return parts.tree.server_files


def problems(parts: Parts) -> list[str]:
    """Say what keeps the service from doing its work."""
    found: list[str] = []
    try:
        with parts.sessions() as session:
            session.execute(text("SELECT 1"))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the database cannot be used
        found.append(f"database: {type(error).__name__}")
    if not len(parts.class_file.book()):
        found.append(f"classes: {parts.class_file.problem or 'none in force'}")
    elif parts.class_file.problem:
        found.append(f"classes: the last good file is in force; {parts.class_file.problem[:300]}")
    found += authority_problems(parts)
    return found


def authority_problems(parts: Parts) -> list[str]:
    """Say what is wrong with the authorities: missing or unusable files, lists that nobody signed anew."""
    try:
        if not parts.tree.complete:
            return ["authorities are missing: run `fleetd ca init`"]
        return [*filter(None, [parts.service_keys.problem]), *parts.authority.late()]
    except (TreeError, KeyFileError, SecretFileError, SQLAlchemyError) as error:
        return [f"authorities: {error}"]
