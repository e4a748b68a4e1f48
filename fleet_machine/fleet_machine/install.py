"""After the image: the seed or the ticket into its file systems, and the firmware's boot entry."""

import io
import json
import os
import platform
import tarfile
from hashlib import sha256
from typing import Any

from fleet_machine.disk import talos_meta
from fleet_machine.disk.gpt import write_all
from fleet_machine.disk.partitions import (
    Partition,
    PartitionRole,
    PartitionTableError,
    partitions_of,
    read_partitions,
    root_partition,
    with_role,
)
from fleet_machine.disk.source import Disk, OpenedDisk, WantedDisk, find, held
from fleet_machine.disk.volumes import checked_path
from fleet_machine.efi import LoadTarget
from fleet_machine.failure import FleetError
from fleet_machine.runcalls import RunCalls
from fleet_machine.seed.ticket import TICKET_FILE, Ticket
from fleet_machine.surroundings import Surroundings

NOCLOUD_FOLDER = "var/lib/cloud/seed/nocloud"
NOCLOUD_REQUIRED = frozenset({"user-data", "meta-data"})
SEED_LIMIT = 8 << 20
LOADERS = {"x86_64": "BOOTX64.EFI", "aarch64": "BOOTAA64.EFI", "riscv64": "BOOTRISCV64.EFI"}


def write_seed(around: Surroundings, calls: RunCalls, wanted: WantedDisk, family: str) -> dict[str, Any]:
    """Fetch the seed or ticket and put it where the family looks for it; return the evidence. Raises FleetError."""
    disk = find(around.disks, wanted)
    if family == "cloud-init-nocloud":
        tar = calls.seed()
        files = {f"{NOCLOUD_FOLDER}/{name}": content for name, content in nocloud_files(tar).items()}
        around.volumes.write(disk, root_partition(partitions_of(disk)), files)
        return {"files": sorted(files), "sha256": sha256(tar).hexdigest()}
    if family in ("nixos-image", "alpine-image"):
        ticket = json.dumps(calls.ticket()).encode()
        Ticket.from_json(ticket)
        around.volumes.write(disk, with_role(partitions_of(disk), PartitionRole.ESP), {TICKET_FILE: ticket})
        return {"files": [TICKET_FILE], "sha256": sha256(ticket).hexdigest()}
    if family == "talos":
        code = str(calls.ticket().get("code", ""))
        if not code:
            raise FleetError("fleetd gave no code for Talos.")
        with held(around.disks, wanted) as opened:
            _write_meta(opened, with_role(read_partitions(opened.fd, opened.disk), PartitionRole.META), code)
            around.commands.forget_cache(opened.fd)
        return {"files": ["META"], "sha256": sha256(code.encode()).hexdigest()}
    raise FleetError(f"FLEET_FAMILY is not known: {family!r}.")


def nocloud_files(tar: bytes) -> dict[str, bytes]:
    """Return the files of a NoCloud tar. Raises FleetError for anything but plain files with plain names."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                name = str(checked_path(member.name.removeprefix("./")))
                opened = archive.extractfile(member) if member.isreg() else None
                if opened is None or member.size > SEED_LIMIT:
                    raise FleetError(f"The seed holds something that is no plain file: {name}.")
                files[name] = opened.read()
    except tarfile.TarError as error:
        raise FleetError(f"The seed is no tar archive: {error}.") from error
    missing = NOCLOUD_REQUIRED - files.keys()
    if missing:
        raise FleetError(f"The seed lacks {', '.join(sorted(missing))}.")
    return files


def set_boot(around: Surroundings, wanted: WantedDisk, node_name: str) -> dict[str, Any]:
    """Make a boot entry for the disk's loader, behind the firmware's first; return what was done.

    Where the firmware's variables cannot be reached, the loader's fallback path is enough. Raises FleetError.
    """
    disk = find(around.disks, wanted)
    esp = with_role(partitions_of(disk), PartitionRole.ESP)
    loader = LOADERS.get(platform.machine(), "BOOTX64.EFI")
    if not around.volumes.holds(disk, esp, f"EFI/BOOT/{loader}"):
        raise FleetError(f"The image has no EFI/BOOT/{loader} on its ESP: the firmware would not start it.")
    if not around.boot_entries.available():
        return {"entry": "", "loader": f"EFI/BOOT/{loader}", "message": "The fallback path is used."}
    # The first entry stays the first: without a BMC it is the network, and that is how the machine is reached again.
    entry = around.boot_entries.put(_target(disk, esp, loader, node_name), first=False)
    return {"entry": entry, "loader": f"EFI/BOOT/{loader}"}


def _target(disk: Disk, esp: Partition, loader: str, node_name: str) -> LoadTarget:
    if not esp.guid.int:
        raise PartitionTableError("The disk has no GPT: its ESP cannot be named in a boot entry.")
    sector = disk.sector_size
    return LoadTarget(
        node_name, esp.number, esp.start // sector, esp.size // sector, esp.guid, f"\\EFI\\BOOT\\{loader}"
    )


def _write_meta(opened: OpenedDisk, meta: Partition, code: str) -> None:
    size = 2 * talos_meta.BLOCK
    if meta.size < size:
        raise PartitionTableError("The META partition is too small for Talos's two blocks.")
    blocks = talos_meta.with_code(os.pread(opened.fd, size, meta.start), code)
    # One block after the other: a power cut leaves one that is whole.
    for at in (0, talos_meta.BLOCK):
        write_all(opened.fd, blocks[at : at + talos_meta.BLOCK], meta.start + at)
        os.fsync(opened.fd)
    if os.pread(opened.fd, size, meta.start) != blocks:
        raise FleetError("The META partition does not read back as it was written.")
