"""A Kea of the test's own: configuration, files and sockets in its folder."""

import json
import shutil
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from pathlib import Path

import pytest

from fleetd.kea import Kea

NETS = (ip_network("192.0.2.0/24"), ip_network("198.51.100.0/24"))


@dataclass(frozen=True, slots=True)
class KeaFolder:
    """Where one Kea's files are."""

    root: Path

    @property
    def configuration(self) -> Path:
        """Kea's own file: it includes what fleetd writes, as docs/how-to/kea.md shows."""
        return self.root / "kea-dhcp4.conf"

    @property
    def socket(self) -> Path:
        """Its control socket."""
        return self.root / "kea.socket"

    @property
    def files(self) -> dict[IPv4Network, Path]:
        """What fleetd writes."""
        return {net: self.root / f"reservations-{number}.json" for number, net in enumerate(NETS)}

    @property
    def environment(self) -> dict[str, str]:
        """Kea's lock and PID files stay in the folder."""
        folder = str(self.root)
        names = ("KEA_PIDFILE_DIR", "KEA_LOCKFILE_DIR", "KEA_CONTROL_SOCKET_DIR", "KEA_DHCP_DATA_DIR")
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **dict.fromkeys(names, folder)}

    def kea(self, *, socket: bool = True) -> Kea:
        """Return fleetd's side of it."""
        return Kea(self.files, self.socket if socket else None, timeout=20)

    def configure(self, interfaces: tuple[str, ...] = ()) -> None:
        """Write Kea's configuration; each subnet includes its file."""
        subnets = [
            {
                "id": number,
                "subnet": str(net),
                "pools": [{"pool": f"{net.network_address + 200} - {net.network_address + 240}"}],
                "reservations": f"INCLUDE {self.files[net]}",
            }
            for number, net in enumerate(NETS, 1)
        ]
        dhcp4 = {
            "interfaces-config": {"interfaces": list(interfaces), "re-detect": False},
            "control-socket": {"socket-type": "unix", "socket-name": str(self.socket)},
            "lease-database": {"type": "memfile", "persist": False},
            "subnet4": subnets,
            "loggers": [{"name": "kea-dhcp4", "severity": "INFO", "output_options": [{"output": "stdout"}]}],
        }
        text = json.dumps({"Dhcp4": dhcp4}, indent=1)
        for path in self.files.values():
            text = text.replace(f'"INCLUDE {path}"', f'<?include "{path}"?>')
        self.configuration.write_text(text)


@pytest.fixture
def kea_folder(tmp_path) -> KeaFolder:
    if shutil.which("kea-dhcp4", path="/usr/sbin:/usr/bin") is None:
        pytest.fail("kea-dhcp4 is missing: scripts/bootstrap test installs it")
    return KeaFolder(tmp_path)
