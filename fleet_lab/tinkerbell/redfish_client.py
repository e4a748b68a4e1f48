"""What Rufio says to a BMC: the Redfish calls of one connection, and the words of its failures."""

import base64
import http.client
import json
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from fleet_lab.tinkerbell.store import Json

TIMEOUT = 10.0
"""Seconds for each answer of a BMC."""
_RESETS = {"on": "On", "off": "ForceOff", "soft": "GracefulShutdown", "cycle": "ForceRestart", "reset": "PowerCycle"}
_TARGETS = {
    "pxe": "Pxe",
    "disk": "Hdd",
    "cdrom": "Cd",
    "bios": "BiosSetup",
    "none": "None",
    "uefi_http": "UefiHttp",
}


class BmcError(Exception):
    """The BMC refused or cannot be reached; the text is Rufio's."""


class ConnectError(BmcError):
    """No connection, or no login."""


@dataclass(frozen=True, slots=True)
class Login:
    """Where a BMC is and who logs in."""

    host: str
    port: int
    user: str
    password: str
    basic: bool = False


class Connection:
    """One login at a BMC; use as a context manager. Blocking: run it in a thread."""

    def __init__(self, login: Login) -> None:
        self._login = login
        split = urlsplit(login.host) if "://" in login.host else None
        self._scheme = split.scheme if split else "https"
        self._host = (split.hostname if split else login.host.strip("[]")) or login.host
        self._token = ""
        self._session = ""
        self._http = self._client()

    def __enter__(self) -> Self:
        """Log in. Raises ConnectError."""
        base = f"{self._scheme}://{self._host}:{self._login.port}"
        try:
            self._call("GET", "/redfish/v1/")
            if not self._login.basic:
                body = {"UserName": self._login.user, "Password": self._login.password}
                answer = self._call("POST", "/redfish/v1/SessionService/Sessions", body)
                self._token, self._session = answer.token, answer.location
        except BmcError as error:
            raise ConnectError(_all_providers(self._host, str(error))) from error
        except (OSError, http.client.HTTPException) as error:
            words = f'Get "{base}/redfish/v1/": {_network_words(error, self._host, self._login.port)}'
            raise ConnectError(_all_providers(self._host, words)) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Log out, whatever happened."""
        try:
            if self._session:
                self._call("DELETE", self._session)
        except (BmcError, OSError, http.client.HTTPException):
            pass
        finally:
            self._http.close()

    def power_state(self) -> str:
        """Return `on`, `off`, or what else the BMC says, lower case."""
        state = str(self._system()[1].get("PowerState", "unknown"))
        return state.lower()

    def set_power(self, action: str) -> None:
        """Carry out a power action, as Rufio does: nothing when it is so already. Raises BmcError."""
        path, system = self._system()
        is_on = str(system.get("PowerState", "")).lower() == "on"
        if action not in _RESETS:
            raise _power_error("unknown power action")
        if (action == "on" and is_on) or (action == "off" and not is_on):
            return
        if action == "cycle" and not is_on:
            raise _power_error("power cycle failed: Command not supported in present state: Off")
        reset = path.rstrip("/") + "/Actions/ComputerSystem.Reset"
        try:
            self._call("POST", reset, {"ResetType": _RESETS[action]})
        except BmcError as error:
            raise _power_error(str(error)) from error
        if action == "soft":
            raise BmcError(
                "failed to perform PowerAction: 2 errors occurred:\n\t* provider: gofish, failed to set power state\n"
                "\t* failed to set power state\n\n"
            )

    def set_boot_device(self, device: str, *, efi: bool, persistent: bool) -> None:
        """Set the boot override. Raises BmcError for a device that Redfish does not know."""
        if device not in _TARGETS:
            raise BmcError(
                "failed to set BootDevice, ok: false, err: 2 errors occurred:\n\t* provider: gofish: invalid boot "
                "device\n\t* failed to set boot device\n\n"
            )
        path, _ = self._system()
        boot = {
            "BootSourceOverrideEnabled": "Continuous" if persistent else "Once",
            "BootSourceOverrideMode": "UEFI" if efi else "Legacy",
            "BootSourceOverrideTarget": _TARGETS[device],
        }
        self._call("PATCH", path, {"Boot": boot})

    def _system(self) -> tuple[str, Json]:
        try:
            members = self._call("GET", "/redfish/v1/Systems").body["Members"]
            path: str = members[0]["@odata.id"]
            return path, self._call("GET", path).body
        except (KeyError, IndexError, TypeError) as error:
            raise BmcError("no system") from error

    def _call(self, method: str, path: str, body: Json | None = None) -> "_Answer":
        headers = {"User-Agent": "gofish/1.0", "Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["X-Auth-Token"] = self._token
        elif self._login.basic and path != "/redfish/v1/":
            credentials = base64.b64encode(f"{self._login.user}:{self._login.password}".encode()).decode()
            headers["Authorization"] = f"Basic {credentials}"
        self._http.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = self._http.getresponse()
        content = response.read()
        if response.status >= 400:
            raise BmcError(f"{response.status}: {content.decode(errors='replace')}")
        location = urlsplit(response.getheader("Location") or "").path
        return _Answer(json.loads(content) if content else {}, response.getheader("X-Auth-Token") or "", location)

    def _client(self) -> http.client.HTTPConnection:
        if self._scheme == "http":
            return http.client.HTTPConnection(self._host, self._login.port, timeout=TIMEOUT)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # BMCs have certificates that nobody signed
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(self._host, self._login.port, timeout=TIMEOUT, context=context)


@dataclass(frozen=True, slots=True)
class _Answer:
    body: Any
    token: str
    location: str


def guarded(work: Callable[[], Any], failure: str, outcome: str) -> Any:
    """Run work on an open connection; whatever fails becomes a BmcError with Rufio's framing."""
    try:
        return work()
    except BmcError as error:
        if str(error).startswith("failed to"):
            raise
        raise _framed(failure, str(error), outcome) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _framed(failure, str(error), outcome) from error


def _framed(failure: str, why: str, outcome: str) -> BmcError:
    if why.startswith("401"):
        why = "failed to retrieve some items: " + json.dumps([{"link": "/redfish/v1/Systems", "error": why}])
    return BmcError(f"{failure}: 2 errors occurred:\n\t* provider: gofish: {why}\n\t* {outcome}\n\n")


def _power_error(why: str) -> BmcError:
    return BmcError(
        f"failed to perform PowerAction: 2 errors occurred:\n\t* provider: gofish: {why}\n"
        "\t* failed to set power state\n\n"
    )


def _network_words(error: Exception, host: str, port: int) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {host}:{port}: connect: connection refused"
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, http.client.RemoteDisconnected):
        return "EOF"
    return str(error)


def _all_providers(host: str, redfish: str) -> str:
    """Return the failure of all providers, which are asked in parallel: their order differs from try to try."""
    refused = f"dial tcp {host}:443: connect: connection refused"
    lines = [
        f"provider: gofish: {redfish}",
        f'provider: openbmc: Get "https://{host}": {refused}',
        f'provider: dell: Get "https://{host}:443/redfish/v1/": {refused}',
    ]
    random.shuffle(lines)
    listed = "".join(f"\t* {line}\n" for line in [*lines, "no Opener implementations found"])
    return f"failed to open connection to BMC: {len(lines) + 1} errors occurred:\n{listed}\n"
