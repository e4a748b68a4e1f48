"""The UEFI firmware of QEMU machines: OVMF as Debian and Ubuntu ship it, 4 MiB variant."""

import shutil
from pathlib import Path

from fleet_lab.places import LabError

_FOLDER = Path("/usr/share/OVMF")


def firmware_code() -> Path:
    """The code, mapped read-only.

    Raises:
        LabError: OVMF is not installed.
    """
    return _there(_FOLDER / "OVMF_CODE_4M.fd")


def new_variables(where: Path) -> None:
    """Give a machine its own variable store, without Secure Boot keys, unless it has one."""
    if not where.exists():
        shutil.copyfile(_there(_FOLDER / "OVMF_VARS_4M.fd"), where)


def _there(path: Path) -> Path:
    if not path.exists():
        raise LabError(f"{path} is missing: install the package ovmf")
    return path
