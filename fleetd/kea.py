"""Kea's side of the reservations: one file a subnet that its configuration includes, and the control socket."""

import json
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from fleetd.core.reservations import Reservation
from fleetd.ports import OutageError, RefusedError

_MOST_ANSWER = 4 << 20


@dataclass(frozen=True, slots=True)
class Kea:
    """The files and the socket of one kea-dhcp4."""

    files: Mapping[IPv4Network, Path]
    control_socket: Path | None = None
    timeout: float = 30.0

    @property
    def subnets(self) -> tuple[IPv4Network, ...]:
        """The subnets that have a file."""
        return tuple(self.files)

    def differs(self, subnet: IPv4Network, reservations: Sequence[Reservation]) -> bool:
        """Tell whether a subnet's file says something else. Raises OutageError."""
        path = self.files[subnet]
        try:
            return path.read_bytes() != rendered(reservations)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise OutageError(f"{path}: {error.strerror}: Kea's reservations cannot be read") from error

    def put(self, subnet: IPv4Network, reservations: Sequence[Reservation]) -> None:
        """Write a subnet's file whole. Raises OutageError."""
        path = self.files[subnet]
        try:
            _replace(path, rendered(reservations))
        except OSError as error:
            raise OutageError(f"{path}: {error.strerror}: Kea's reservations cannot be written") from error

    def reload(self) -> None:
        """Make Kea read its configuration again (Kea ARM 18.1, config-reload); nothing without a control socket.

        Raises OutageError where Kea does not answer, RefusedError where it cannot use its configuration: it then goes
        on with the one it has.
        """
        if self.control_socket is None:
            return
        answer = self._asked({"command": "config-reload"})
        if answer.get("result") != 0:
            said = str(answer.get("text", "no reason"))[:500]
            raise RefusedError(f"Kea refuses its configuration: {said}. Run `kea-dhcp4 -t` on it")

    def version(self) -> str:
        """Return Kea's own word of its version; empty without a control socket. Raises OutageError."""
        if self.control_socket is None:
            return ""
        return str(self._asked({"command": "version-get"}).get("text", ""))[:100]

    def _asked(self, command: Mapping[str, str]) -> Mapping[str, object]:
        raw = bytearray()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                channel.settimeout(self.timeout)
                channel.connect(str(self.control_socket))
                channel.sendall(json.dumps(dict(command)).encode())
                while len(raw) < _MOST_ANSWER and (part := channel.recv(65536)):
                    raw += part
            answer = json.loads(raw)
        except (OSError, ValueError) as error:
            raise OutageError(f"Kea does not answer at {self.control_socket}: {type(error).__name__}") from error
        return answer if isinstance(answer, dict) else {}


def rendered(reservations: Sequence[Reservation]) -> bytes:
    """Return the file: a JSON array that stands where Kea expects `reservations`, a host a line; ASCII only."""
    rows = [json.dumps(_row(reservation)) for reservation in reservations]
    return ("[\n" + ",\n".join(rows) + "\n]\n").encode("ascii")


def _row(reservation: Reservation) -> dict[str, str]:
    row = {"hw-address": reservation.mac, "hostname": reservation.hostname}
    return row | {"ip-address": reservation.address} if reservation.address else row


def _replace(path: Path, content: bytes) -> None:
    """Put the content in the file's place in one step: Kea never reads half of it. Readable by all: no secret."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o644)
        os.replace(name, path)  # noqa: PTH105 -- one step, over what stands there
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
