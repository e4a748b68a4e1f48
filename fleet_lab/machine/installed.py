"""What is installed on a light machine's disk, and what its first boot would do with it."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from fleet_lab.machine.machine import MachineSpec
from fleet_lab.machine.talos_node import TalosHost
from fleet_machine.disk.partitions import PartitionTableError, partitions_of, root_partition
from fleet_machine.disk.source import Disk
from fleet_machine.disk.volumes import ToolVolumes

_USER_DATA = "var/lib/cloud/seed/nocloud/user-data"
_STATE_FOLDER = "/var/lib/fleet/"
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class InstalledDisk:
    """The disk of a light machine, as its installed system finds it."""

    spec: MachineSpec
    path: Path

    @property
    def disk(self) -> Disk:
        """The disk as a value."""
        return Disk("vda", self.spec.disk_serial, "", "light", self.path.stat().st_size, 512, self.path)

    def is_talos(self) -> bool:
        """Whether it holds Talos: it has a META partition."""
        return any(partition.label == "META" for partition in partitions_of(self.disk))

    def talos_host(self, command_line: Mapping[str, str], schema: Path | None) -> TalosHost:
        """What Talos knows of the machine before it has a configuration."""
        spec = self.spec
        return TalosHost(spec.uuid, spec.serial, spec.mac, self.disk, command_line, spec.address, schema)

    def apply_nocloud(self, state: Path) -> bool:
        """Do what cloud-init's write_files does of a NoCloud seed, for files of fleet_machine; False without a seed."""
        try:
            root = root_partition(partitions_of(self.disk))
        except PartitionTableError:
            return False
        user_data = ToolVolumes().read(self.disk, root, _USER_DATA)
        if user_data is None:
            return False
        state.mkdir(parents=True, exist_ok=True)
        for file in yaml.safe_load(user_data).get("write_files", ()):
            if file["path"].startswith(_STATE_FOLDER) and "encoding" not in file:
                (state / file["path"].removeprefix(_STATE_FOLDER)).write_text(file["content"])
        return True


def loopback_https(
    source: str, _host: str, port: int, trust: ssl.SSLContext, timeout: float
) -> http.client.HTTPConnection:
    """Return a connection to the lab's own host, where light machines are, from the machine's address."""
    return http.client.HTTPSConnection(_HOST, port, timeout=timeout, source_address=(source, 0), context=trust)
