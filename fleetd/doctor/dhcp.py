"""Kea: whether its files can be written, and whether it listens."""

import os

from fleetd.config import Settings
from fleetd.doctor.notes import Notes, broken, good, warns
from fleetd.kea import Kea
from fleetd.ports import OutageError

_PART = "kea"


def kea(settings: Settings) -> Notes:
    """Look at the folders of the reservations and ask Kea its version; nothing where no subnet is named."""
    wanted = settings.kea
    for subnet in wanted.subnets:
        folder = subnet.file.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            yield broken(
                _PART,
                f"{folder} cannot be written: no reservations of {subnet.prefix}",
                f"Make {folder}, writable by fleetd's user.",
            )
        elif not subnet.file.exists():
            yield warns(_PART, f"{subnet.file} is not there yet", "Run `fleetd kea write` before Kea is started.")
        else:
            yield good(_PART, f"{subnet.prefix}: {subnet.file}")
    if not wanted.subnets:
        return
    if wanted.control_socket is None:
        yield warns(
            _PART, "no control socket: Kea is not told of changes", "Set kea.control_socket, or reload Kea yourself."
        )
        return
    try:
        version = Kea({}, wanted.control_socket, wanted.timeout).version()
    except OutageError as error:
        yield broken(_PART, str(error), "Start Kea, and let fleetd's user write to its control socket.")
    else:
        yield good(_PART, f"Kea {version} listens at {wanted.control_socket}")
