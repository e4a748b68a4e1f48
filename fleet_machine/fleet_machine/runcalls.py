"""The calls of a run under its session: leave, events, seed, ticket, reboot (docs/reference/machine-api.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from fleet_machine.challenge import unbase64
from fleet_machine.client import Answer, FleetClient
from fleet_machine.clock import parse_time
from fleet_machine.disk.source import folded
from fleet_machine.enroll import Enrollment, ensured_session
from fleet_machine.failure import FleetError, NotAuthenticError, RefusedError
from fleet_machine.jws import Typ
from fleet_machine.keys import Binding, EnvelopeError, Purpose, call_mac, open_envelope, seed_key
from fleet_machine.runfolder import RunFolder, Session
from fleet_machine.settings import RunSettings
from fleet_machine.surroundings import Surroundings

UNKNOWN_SESSION = 401
PROGRESS_TIMEOUT = 5.0
PROGRESS_PAUSE_AFTER_SILENCE = 30.0
CLOCK_TOLERANCE = timedelta(seconds=5)


class Kind(Enum):
    """What an event tells."""

    STARTED = "started"
    PROGRESS = "progress"
    EVIDENCE = "evidence"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(slots=True)
class RunCalls:
    """fleetd, as one action of a run speaks with it. Raises FleetError."""

    around: Surroundings
    client: FleetClient
    run: RunSettings
    action: str
    _session: Session | None = field(default=None, init=False)
    _quiet_until: float = field(default=0.0, init=False)
    _shown: tuple[int | None, str] = field(default=(None, ""), init=False)
    """The progress that the console showed last."""

    def session(self) -> Session:
        """Return the session, enrolling when this boot has none."""
        if self._session is None:
            self._session = ensured_session(self.around, self.client, self.run)
        return self._session

    def leave(self, disk_serial: str) -> None:
        """Ask for leave to change this disk now, and wait while fleetd says "not yet".

        Raises RefusedError when fleetd says no, NotAuthenticError when what it signed is not this leave.
        """
        body = json.dumps({"action": self.action, "disk_serial": disk_serial}).encode()
        answer, _counter = self._when_ready("leave", body)
        leave = self.client.signed(answer, Typ.LEAVE)
        told = (leave.get("run"), leave.get("action"), folded(str(leave.get("disk_serial", ""))))
        if told != (self.session().run, self.action, folded(disk_serial)):
            raise NotAuthenticError("The leave is for another run, action or disk: nothing is touched.")
        try:
            late = self.client.time.now() > parse_time(str(leave["start_before"])) + CLOCK_TOLERANCE
        except (KeyError, ValueError) as error:
            raise NotAuthenticError("The leave does not say until when it may be used.") from error
        if late:
            raise NotAuthenticError("The leave is too old: nothing is touched.")
        self.around.console.say(f"{self.action}: fleetd gives leave for the disk {disk_serial}.")

    def tell(
        self, kind: Kind, message: str = "", *, percent: float | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Tell fleetd, until it is heard."""
        self._call("POST", "events", self._event(kind, message, percent, data))

    def progress(self, percent: float | None, message: str) -> None:
        """Show how far the action is, and tell fleetd; it is not told while it is silent, since the work goes on."""
        self._show(percent, message)
        if self.around.clock.boot() < self._quiet_until:
            return
        body = self._event(Kind.PROGRESS, message, percent, None)
        try:
            self._call("POST", "events", body, patience=0.0, timeout=PROGRESS_TIMEOUT)
        except FleetError:
            # Whatever it is, the next call that must be heard meets it again: a run that was cancelled, say, ends at its
            # next leave, never in the middle of an erase or write.
            self._quiet_until = self.around.clock.boot() + PROGRESS_PAUSE_AFTER_SILENCE

    def _show(self, percent: float | None, message: str) -> None:
        """Say it on the console, once for each whole percent: hours of an erase fill no screen with one line."""
        shown = (None if percent is None else int(percent), message)
        if shown == self._shown:
            return
        self._shown = shown
        share = "" if shown[0] is None else f"{shown[0]} %. "
        self.around.console.say(f"{self.action}: {share}{message}")

    def seed(self) -> bytes:
        """Redeem the run's NoCloud tar."""
        return self._sealed("seed", Purpose.SEED)

    def ticket(self) -> dict[str, Any]:
        """Fetch the ticket that the installed system redeems, or Talos's code."""
        held = json.loads(self._sealed("ticket", Purpose.TICKET))
        if not isinstance(held, dict):
            raise NotAuthenticError("The ticket is no JSON object.")
        return held

    def may_reboot(self) -> bool:
        """Return whether fleetd wants this machine to reboot now."""
        answer, _counter = self._call("GET", "reboot", None)
        return isinstance(answer.body, dict) and answer.body.get("reboot") is True

    def _sealed(self, name: str, purpose: Purpose) -> bytes:
        answer, counter = self._when_ready(name, b"{}")
        payload = self.client.signed(answer, Typ.SEED)
        session = self.session()
        if (payload.get("run"), payload.get("enrollment")) != (session.run, session.enrollment):
            raise NotAuthenticError(f"The {name} is for another run or enrollment.")
        key = seed_key(session.key, self._path(name), counter)
        try:
            binding = Binding(purpose, session.enrollment, session.run)
            return open_envelope(key, unbase64(payload.get("sealed")), binding)
        except (EnvelopeError, ValueError) as error:
            raise NotAuthenticError(f"The {name} cannot be opened: {error}") from error

    def _when_ready(self, name: str, body: bytes) -> tuple[Answer, int]:
        """Ask again as long as fleetd says when it may answer otherwise. Raises RefusedError for a plain no."""
        while True:
            try:
                return self._call("POST", name, body)
            except RefusedError as refusal:
                if refusal.stop or refusal.retry_after is None:
                    raise
                self.around.console.say(f"{self.action} waits: {refusal}")
                self.around.clock.sleep(max(refusal.retry_after, 0.1))

    def _event(self, kind: Kind, message: str, percent: float | None, data: Mapping[str, Any] | None) -> bytes:
        milliseconds = int(self.client.time.now().timestamp() * 1000)
        event: dict[str, Any] = {
            "seq": RunFolder(self.around.run_folder).next_seq(milliseconds),
            "action": self.action,
            "kind": kind.value,
        }
        if message:
            event["message"] = message[:2000]
        if percent is not None:
            event["percent"] = max(0, min(100, int(percent)))
        if data is not None:
            event["data"] = data
        return json.dumps(event).encode()

    def _path(self, name: str) -> str:
        return f"/v1/runs/{self.session().run}/{name}"

    def _call(
        self, method: str, name: str, body: bytes | None, *, patience: float | None = None, timeout: float = 30.0
    ) -> tuple[Answer, int]:
        """Make an authenticated call; a session that fleetd does not know is replaced by a new enrollment, once.

        It is not known after a second refusal: the first may be of a counter that a proxy sent twice, or out of turn.
        """
        for _ in range(2):
            try:
                return self._authenticated(method, name, body, patience, timeout)
            except RefusedError as refusal:
                if refusal.status != UNKNOWN_SESSION:
                    raise
        self.around.console.say("fleetd does not know this session: enrolling again.")
        RunFolder(self.around.run_folder).drop_session()
        self._session = Enrollment(self.around, self.client, self.run).until_verified()
        return self._authenticated(method, name, body, patience, timeout)

    def _authenticated(
        self, method: str, name: str, body: bytes | None, patience: float | None, timeout: float
    ) -> tuple[Answer, int]:
        session, path = self.session(), self._path(name)
        if not session.run:
            raise FleetError("There is no run for this machine: only enrollment is possible.")
        used = 0

        def headers() -> dict[str, str]:
            nonlocal used
            used = RunFolder(self.around.run_folder).next_counter()
            return {
                "Fleet-Enrollment": session.enrollment,
                "Fleet-Counter": str(used),
                "Fleet-MAC": call_mac(session.key, method, path, body or b"", used),
            }

        answer = self.client.call(method, path, body, headers, patience=patience, timeout=timeout)
        return answer, used
