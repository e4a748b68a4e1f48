"""`fleetd metrics`: what Prometheus would be told now."""

from datetime import datetime

import redis
import typer

from fleetd.ca.tree import TreeError
from fleetd.cli.configuration import settings_of
from fleetd.core.certificates.profile import Tier
from fleetd.metrics.exporter import Exporter, Issuer
from fleetd.secret_files import SecretFileError
from fleetd.wiring import Parts, version

_QUEUE = "celery"
_WAIT = 2


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("metrics")(metrics)


def metrics(context: typer.Context) -> None:
    """Print the metrics once, as the inside listener exposes them."""
    text, _ = exporter(Parts(settings_of(context))).exposition()
    typer.echo(text, nl=False)


def exporter(parts: Parts) -> Exporter:
    """Return the exporter of these parts."""
    return Exporter(
        parts.sessions,
        parts.clock,
        version(),
        authorities=lambda: _authorities(parts),
        root_list_end=lambda: _root_list_end(parts),
        server_end=lambda: _server_end(parts),
        queue_length=lambda: _queue_length(parts),
    )


def _authorities(parts: Parts) -> list[Issuer]:
    try:
        found = [issuer for tier in Tier for issuer in parts.tree.in_force(tier)]
        return [Issuer(each.name, each.fingerprint, each.certificate.not_valid_after_utc.timestamp()) for each in found]
    except TreeError:
        return []


def _root_list_end(parts: Parts) -> datetime | None:
    try:
        return parts.authority.root_list_end()
    except ValueError:
        return None


def _server_end(parts: Parts) -> datetime | None:
    try:
        return parts.server_certificate().not_valid_after_utc
    except (OSError, ValueError):
        return None


def _queue_length(parts: Parts) -> int | None:
    try:
        address = parts.settings.broker.address()
        with redis.Redis.from_url(address, socket_connect_timeout=_WAIT, socket_timeout=_WAIT) as client:
            length = client.llen(_QUEUE)
    except (redis.RedisError, SecretFileError, ValueError):
        return None
    return length if isinstance(length, int) else None
