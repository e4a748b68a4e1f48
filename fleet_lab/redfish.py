"""A BMC: the part of Redfish (DMTF DSP0266) that Rufio uses, over a machine's power port."""

import base64
import hmac
import json
import secrets
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from fleet_lab.certificate import self_signed

_SESSIONS = "/redfish/v1/SessionService/Sessions"
_SYSTEM = "/redfish/v1/Systems/1"
_RESET = f"{_SYSTEM}/Actions/ComputerSystem.Reset"
_TARGETS = ("None", "Pxe", "Hdd", "Cd", "BiosSetup", "UefiHttp")
_LARGEST_BODY = 64 * 1024


class PowerPort(Protocol):
    """What a BMC holds of its machine."""

    def is_on(self) -> bool:
        """Whether the machine has power."""
        ...

    def on(self) -> None:
        """Give it power; nothing happens to one that is on."""
        ...

    def off(self) -> None:
        """Cut the power; returns when it is off."""
        ...

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the next boot, or every boot, starts (`Boot.BootSourceOverrideTarget`)."""
        ...


@dataclass
class Behaviour:
    """Faults of a BMC, changed while it runs."""

    refuse_resets: bool = False
    """Answer resets with 500."""
    ignore_resets: bool = False
    """Answer resets with 204 and do nothing."""


@dataclass
class Seen:
    """One request that the BMC got."""

    method: str
    path: str
    body: Any
    status: int


@dataclass
class Bmc:
    """One BMC at an address of its own; `start` it, then `close` it."""

    port: PowerPort
    user: str
    password: str
    certificate: Path
    """PEM file with key and certificate; made when absent."""
    address: str = "127.0.0.1"
    tcp_port: int = 0
    name: str = "machine"
    behaviour: Behaviour = field(default_factory=Behaviour)
    requests: list[Seen] = field(default_factory=list)
    logins_refused: int = 0
    _server: ThreadingHTTPServer | None = field(default=None, init=False, repr=False)
    _tokens: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _boot: dict[str, Any] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def start(self) -> "Bmc":
        """Listen; `tcp_port` holds the port from then on."""
        bmc = self

        class Handler(_Handler):
            owner = bmc

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self_signed(self.certificate, (self.address, "localhost")))
        self._server = _Server((self.address, self.tcp_port), Handler)
        self._server.tls = context
        self.tcp_port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.2,), name=f"bmc-{self.name}", daemon=True).start()
        return self

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, method: str, path: str, headers: Any, body: Any) -> tuple[int, Any, dict[str, str]]:
        """Return status, body and headers for one request."""
        path = path.rstrip("/")
        if path == "/redfish" and method == "GET":
            return 200, {"v1": "/redfish/v1/"}, {}
        if path == "/redfish/v1" and method == "GET":
            return 200, _ROOT, {}
        if path == _SESSIONS and method == "POST":
            return self._log_in(body)
        if not self._authorised(headers):
            return 401, _problem("Base.1.0.GeneralError", "Unauthorized"), {}
        if path.startswith(f"{_SESSIONS}/") and method == "DELETE":
            self._log_out(path.rsplit("/", 1)[1])
            return 204, None, {}
        match method, path:
            case "GET", "/redfish/v1/Systems":
                return 200, _collection("/redfish/v1/Systems", [_SYSTEM]), {}
            case "GET", "/redfish/v1/Systems/1":
                return 200, self._system(), {}
            case "PATCH", "/redfish/v1/Systems/1":
                return self._set_boot(body)
            case "POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset":
                return self._reset(body)
            case "GET", "/redfish/v1/Managers" | "/redfish/v1/Chassis":
                return 200, _collection(path, []), {}
        return 404, _problem("Base.1.0.ResourceMissingAtURI", f"nothing at {path}"), {}

    def _log_in(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        if not isinstance(body, dict) or not self._known(body.get("UserName"), body.get("Password")):
            self.logins_refused += 1
            return 401, _problem("Base.1.0.GeneralError", "Unauthorized"), {}
        token, number = secrets.token_hex(16), secrets.token_hex(4)
        with self._lock:
            self._tokens[token] = number
        place = f"{_SESSIONS}/{number}"
        return 201, {"@odata.id": place, "Id": number}, {"X-Auth-Token": token, "Location": place}

    def _log_out(self, number: str) -> None:
        with self._lock:  # else a login meanwhile would be forgotten
            self._tokens = {token: known for token, known in self._tokens.items() if known != number}

    def _authorised(self, headers: Any) -> bool:
        if headers.get("X-Auth-Token") in self._tokens:
            return True
        given = headers.get("Authorization") or ""
        if not given.startswith("Basic "):
            return False
        try:
            user, _, password = base64.b64decode(given[6:], validate=True).decode().partition(":")
        except ValueError:
            return False
        if self._known(user, password):
            return True
        self.logins_refused += 1
        return False

    def _known(self, user: Any, password: Any) -> bool:
        pairs = ((self.user, user), (self.password, password))
        return all(hmac.compare_digest(known.encode(), str(given).encode()) for known, given in pairs)

    def _system(self) -> dict[str, Any]:
        boot = {
            "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget": "None",
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(_TARGETS),
        }
        reset = {"target": _RESET, "ResetType@Redfish.AllowableValues": sorted(_RESET_TYPES)}
        return {
            "@odata.id": _SYSTEM,
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "Id": "1",
            "Name": self.name,
            "PowerState": "On" if self.port.is_on() else "Off",
            "Boot": boot | self._boot,
            "Actions": {"#ComputerSystem.Reset": reset},
        }

    def _set_boot(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        boot = body.get("Boot", {}) if isinstance(body, dict) else {}
        target = boot.get("BootSourceOverrideTarget", "None")
        enabled = boot.get("BootSourceOverrideEnabled", "Once")
        if target not in _TARGETS or enabled not in {"Once", "Continuous", "Disabled"}:
            return 400, _problem("Base.1.0.PropertyValueNotInList", "no such boot source"), {}
        with self._lock:
            self._boot = boot
            place = "None" if enabled == "Disabled" else target
            self.port.boot_override(place, persistent=enabled == "Continuous")
        return 200, self._system(), {}

    def _reset(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        kind = body.get("ResetType") if isinstance(body, dict) else None
        if self.behaviour.refuse_resets:
            return 500, _problem("Base.1.0.InternalError", "BMC says no"), {}
        if kind not in _RESET_TYPES:
            return 400, _problem("Base.1.0.ActionParameterNotSupported", f"no reset of type {kind}"), {}
        if not self.behaviour.ignore_resets:
            with self._lock:
                was_on = self.port.is_on()
                if kind in {"ForceOff", "GracefulShutdown"}:
                    self.port.off()
                elif kind in {"On", "ForceOn"}:
                    self.port.on()
                elif kind == "PushPowerButton":
                    (self.port.off if was_on else self.port.on)()
                elif was_on:  # a restart or power cycle of a machine that is off does nothing
                    self.port.off()
                    self.port.on()
        return 204, None, {}


_RESET_TYPES = {
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "PowerCycle",
    "PushPowerButton",
}
_ROOT: dict[str, Any] = {
    "@odata.id": "/redfish/v1/",
    "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
    "Id": "RootService",
    "Name": "Root Service",
    "RedfishVersion": "1.15.0",
    "Systems": {"@odata.id": "/redfish/v1/Systems"},
    "Managers": {"@odata.id": "/redfish/v1/Managers"},
    "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
    "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
    "Links": {"Sessions": {"@odata.id": _SESSIONS}},
}


def _collection(path: str, members: list[str]) -> dict[str, Any]:
    return {
        "@odata.id": path,
        "Name": path.rsplit("/", 1)[1],
        "Members@odata.count": len(members),
        "Members": [{"@odata.id": member} for member in members],
    }


def _problem(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


class _Server(ThreadingHTTPServer):
    """TLS is shaken hands in the thread of the connection, so that a silent client blocks nobody else."""

    daemon_threads = True
    request_queue_size = 64
    tls: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(20)
        try:
            wrapped = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            return
        with wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    owner: Bmc
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        length = min(int(self.headers.get("Content-Length") or 0), _LARGEST_BODY)
        content = self.rfile.read(length) if length else b""
        try:
            body = json.loads(content) if content else None
        except ValueError:
            body = None
        path = urlsplit(self.path).path
        status, answer, headers = self.owner.answer(self.command, path, self.headers, body)
        self.owner.requests.append(Seen(self.command, path, body, status))
        del self.owner.requests[:-500]
        encoded = json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status)
        for key, value in {**headers, "OData-Version": "4.0", "Content-Type": "application/json"}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - names that http.server calls

    def log_message(self, *_: object) -> None:
        """Keep no log: `Bmc.requests` tells more."""
