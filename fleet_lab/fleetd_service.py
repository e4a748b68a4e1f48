"""fleetd in the lab: its configuration, its four processes, and their sudden death."""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet_lab.places import CHECKOUT, LabError, Places, free_port
from fleet_lab.services.process import Child, stop_together

PROCESSES = ("serve", "worker", "beat", "watch")


@dataclass
class FleetdService:
    """One fleetd: `folder` holds its configuration, keys and logs."""

    folder: Path
    port: int
    inside_port: int
    extra: Mapping[str, str] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The TOML file."""
        return self.folder / "fleetd.toml"

    @property
    def environment(self) -> dict[str, str]:
        """What each of its processes needs in its environment."""
        return {
            "FLEETD_CONFIG": str(self.configuration),
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONUNBUFFERED": "1",
            **self.extra,
        }

    def ca_pem(self) -> str:
        """Return the root that its server certificate leads to, PEM: what machines trust."""
        return (self.folder / "ca" / "root.pem").read_text()

    def command(self, *arguments: str) -> str:
        """Run a `fleetd` command and return what it printed.

        Raises LabError with its own words when it fails.
        """
        done = subprocess.run(
            [sys.executable, "-m", "fleetd", *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LabError(
                f"fleetd {' '.join(arguments)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-1500:]}"
            )
        return done.stdout

    def start(self, *names: str) -> None:
        """Start its processes, all four unless some are named, and wait until the machine listener answers."""
        for name in names or PROCESSES:
            child = Child(
                f"fleetd {name}", [sys.executable, "-m", "fleetd", name], self.folder / f"{name}.log", self.environment
            )
            self.children[name] = child.start()
        serve = self.children.get("serve")
        if serve is not None:
            serve.wait_until(self.answers, 600)

    def answers(self) -> bool:
        """Tell whether the inside listener says that the process lives."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.inside_port, timeout=3)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status in {200, 503}
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """End all its processes at once, as a power cut would."""
        for child in self.children.values():
            child.kill()
        self.children.clear()

    def stop(self) -> None:
        """Stop its processes: all are asked at once, and then waited for."""
        stop_together(self.children.values())
        self.children.clear()


def write_configuration(folder: Path, values: Mapping[str, Any]) -> Path:
    """Write the TOML file of one fleetd: `values` maps section to key to value; keys of no section come under ''."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{key} = {_toml(value)}" for key, value in values.get("", {}).items()]
    for section, keys in values.items():
        if section:
            lines += [f"\n[{section}]", *(f"{key} = {_toml(value)}" for key, value in keys.items())]
    file = folder / "fleetd.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def secret_file(file: Path, content: str | bytes | None = None) -> Path:
    """Keep a secret in a file of mode 0600; without content a random one is made on first use."""
    if content is None and file.exists():
        return file
    data = secrets.token_bytes(32) if content is None else content.encode() if isinstance(content, str) else content
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_bytes(data)
    return file


def new_service(places: Places, values: Mapping[str, Mapping[str, Any]]) -> FleetdService:
    """Return a fleetd on free loopback ports whose configuration is `values` and what every lab has in common."""
    folder = places.state / "fleetd"
    port, inside = free_port(), free_port()
    shared: dict[str, dict[str, Any]] = {
        "machine": {"host": "127.0.0.1", "port": port, "public_url": f"https://10.0.2.2:{port}"},
        "inside": {"host": "127.0.0.1", "port": inside},
        "ca": {"directory": folder / "ca", "server_key_file": secret_file(folder / "server.key")},
        "paths": {
            "roots": folder / "ek-roots",
            "secrets": folder / "secrets",
            "templates": CHECKOUT / "templates",
            "workflows": CHECKOUT / "workflows",
        },
    }
    for name in ("roots", "secrets"):
        Path(shared["paths"][name]).mkdir(parents=True, exist_ok=True, mode=0o700)
    merged = {section: {**shared.get(section, {}), **values.get(section, {})} for section in {*shared, *values}}
    write_configuration(folder, merged)
    return FleetdService(folder, port, inside)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
