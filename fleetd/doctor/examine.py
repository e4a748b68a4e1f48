"""All parts, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fleetd.config import Settings
from fleetd.doctor.authority import authority, listener
from fleetd.doctor.cluster import cluster
from fleetd.doctor.database import broker, database
from fleetd.doctor.dhcp import kea
from fleetd.doctor.files import classes, roots, secrets, workflows
from fleetd.doctor.netbox import netbox
from fleetd.doctor.notes import Level, Note, Notes, short

PROBES: Final[Sequence[Callable[[Settings], Notes]]] = (
    secrets,
    database,
    broker,
    netbox,
    cluster,
    authority,
    listener,
    classes,
    workflows,
    roots,
    kea,
)


def examine(settings: Settings) -> Iterator[Note]:
    """Yield what is seen of each part. A part that cannot be examined is named, and the others are examined all the same."""
    for probe in PROBES:
        try:
            yield from probe(settings)
        except Exception as error:  # noqa: BLE001 -- whatever ails one part, an owner wants to hear of the others
            yield Note(
                probe.__name__,
                Level.BROKEN,
                f"could not be examined: {type(error).__name__}: {short(error)}",
                "Report this as a bug, with the output of `fleetd doctor --json`.",
            )
