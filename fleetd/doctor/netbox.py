"""NetBox: whether it is there, its version and the plugin's, the token's rights, and its clock."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import requests

from fleetd.config import Settings
from fleetd.doctor.notes import Notes, broken, good, short, warns
from fleetd.netbox.contract import contract_problem
from fleetd.netbox.inventory import Access, headers_of, session_of
from fleetd.secret_files import SecretFileError, secret_text
from fleetd.wiring import version

_PART, _TOKEN, _CLOCK = "netbox", "netbox token", "clock"
SUPPORTED = (4, 7)
"""Major and minor version of NetBox."""
SKEW_WARNS, SKEW_BREAKS = 5.0, 60.0
"""Seconds."""


def netbox(settings: Settings) -> Notes:
    """Ask NetBox for its status, then for what fleetd reads and writes."""
    wanted = settings.netbox
    if wanted.token_file is None:
        yield broken(_TOKEN, "netbox.token_file is not set", "`netbox fleet_service_account` makes and prints a token.")
        return
    try:
        token = secret_text(wanted.token_file)
    except SecretFileError as error:
        yield broken(_TOKEN, str(error), "Write the token of `netbox fleet_service_account` to netbox.token_file.")
        return
    access = Access(wanted.url, token, wanted.timeout, str(wanted.ca_file or ""))
    asking = session_of(access)
    asking.headers.update(headers_of(access))
    try:
        answer = asking.get(f"{wanted.url.rstrip('/')}/api/status/", timeout=wanted.timeout, allow_redirects=False)
    except requests.exceptions.SSLError as error:
        yield broken(_PART, f"its certificate is not trusted: {short(error)}", "Set netbox.ca_file to its CA.")
        return
    except requests.RequestException as error:
        yield broken(
            _PART, f"{wanted.url} cannot be reached: {type(error).__name__}", "Start NetBox, or correct netbox.url."
        )
        return
    if answer.status_code in {401, 403}:
        yield broken(_TOKEN, "NetBox refuses the token", "Make a new one with `netbox fleet_service_account`.")
        return
    status = _json(answer)
    if status is None:
        yield broken(
            _PART,
            f"{wanted.url} answers {answer.status_code}, and not as NetBox does",
            "Correct netbox.url: it is the address of NetBox's start page.",
        )
        return
    yield from _versions(status)
    yield from _clock(answer.headers.get("Date", ""), datetime.now(UTC))
    yield from _rights(asking, wanted.url.rstrip("/"), wanted.timeout)
    if wanted.webhook_secret_file is None:
        yield warns(
            "webhook",
            "netbox.webhook_secret_file is not set: a wish is seen at the next poll only",
            "`netbox fleet_webhook URL` registers the webhook and prints the secret for this file.",
        )


def _json(answer: requests.Response) -> dict[str, Any] | None:
    try:
        body = answer.json()
    except ValueError:
        return None
    return body if answer.ok and isinstance(body, dict) and "netbox-version" in body else None


def _versions(status: dict[str, Any]) -> Notes:
    shown = str(status["netbox-version"])
    if _numbers(shown) != SUPPORTED:
        yield broken(_PART, f"NetBox {shown} is not supported", "Use NetBox 4.7.")
    plugins = status.get("plugins") or {}
    plugin = plugins.get("netbox_fleet")
    if plugin is None:
        yield broken(
            "plugin",
            "NetBox does not run the plugin netbox_fleet",
            'Install netbox-fleet in NetBox\'s environment, add "netbox_fleet" to PLUGINS, migrate, restart.',
        )
        return
    mine = version()
    if mine != "0" and _numbers(str(plugin)) != _numbers(mine):
        yield warns(
            "plugin",
            f"NetBox runs netbox_fleet {plugin}, this is fleetd {mine}",
            "Bring both to the same version, the plugin first.",
        )
        return
    yield good(_PART, f"NetBox {shown} with netbox_fleet {plugin}")


def _numbers(text: str) -> tuple[int, ...]:
    """Return major and minor version."""
    return tuple(int(part) for part in text.split("-", maxsplit=1)[0].split(".")[:2] if part.isdigit())


def _clock(date: str, now: datetime) -> Notes:
    try:
        skew = abs((parsedate_to_datetime(date) - now).total_seconds())
    except ValueError:
        return
    if skew >= SKEW_BREAKS:
        yield broken(
            _CLOCK,
            f"this host and NetBox differ by {skew:.0f} s",
            "Let both keep time by NTP: challenges and certificates live by the clock.",
        )
    elif skew >= SKEW_WARNS:
        yield warns(_CLOCK, f"this host and NetBox differ by {skew:.0f} s", "Let both keep time by NTP.")
    else:
        yield good(_CLOCK, "agrees with NetBox's")


def _rights(asking: requests.Session, url: str, timeout: float) -> Notes:
    calls: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("read declarations", "GET", "declarations/", {"params": {"limit": 1}}),
        ("send reports", "POST", "reports/", {"json": {"reports": []}}),
    )
    lacking = []
    for right, method, path, how in calls:
        address = f"{url}/api/plugins/fleet/{path}"
        try:
            answer = asking.request(method, address, timeout=timeout, allow_redirects=False, **how)
        except requests.RequestException as error:
            yield broken(_PART, f"{path} does not answer: {type(error).__name__}", "Look at NetBox's own log.")
            return
        if answer.status_code in {401, 403}:
            lacking.append(right)
        elif (answer.ok or answer.status_code == requests.codes.conflict) and (
            problem := contract_problem(answer.headers)
        ):
            yield broken(
                "plugin", problem, "Until then fleetd does nothing: what NetBox was to be told waits, and runs wait."
            )
            return
        elif not answer.ok and answer.status_code != requests.codes.not_found:
            yield broken(_PART, f"answers {answer.status_code} to {path}", "Look at NetBox's own log.")
    if lacking:
        yield broken(
            _TOKEN,
            f"the token may not {' or '.join(lacking)}",
            "Run `netbox fleet_service_account` again: it gives the account the rights that fleetd needs.",
        )
    else:
        yield good(_TOKEN, "may read declarations and send reports")
