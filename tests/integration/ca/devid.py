"""A machine with a software TPM whose LDevID fleetd has issued, and the files that it exports."""

from dataclasses import dataclass
from pathlib import Path

from fleet_machine.seed.devid import export_devid
from fleet_machine.seed.state import Certificates, InstalledState
from fleet_machine.tpm.device import opened_tpm
from fleetd.ca.issuing import FleetIssuer
from fleetd.ca.tree import Tree, make_tree
from fleetd.wiring import SystemClock, SystemRandom
from tests.integration.ca.conftest import an_order
from tests.swtpm import SoftwareTpm

URL = "https://fleetd.example.org:7443"


@dataclass
class Devid:
    """The exported files, and the tree that issued."""

    tpm: SoftwareTpm
    tree: Tree
    files: Path
    serial: int


def issued_devid(tpm: SoftwareTpm, sessions, folder: Path) -> Devid:
    tree = make_tree(folder / "authorities", "Example", URL, SystemClock().now(), SystemRandom())
    with opened_tpm(tpm.tcti) as device:
        (ek, *_), pair = device.endorsement_keys(), device.make_ldevid()
        with device.lak(b"\1" * 32, None, None) as lak:
            public = lak.public
    order = an_order(lak_public=public, ldevid_public=pair.public, ek_public=ek.public, ek_certificate=ek.certificate)
    issued = FleetIssuer(sessions, tree, SystemClock(), SystemRandom(), URL).issue(order)
    state = InstalledState(
        7, "", URL, "", b"", b"\1" * 32, None, Certificates.from_json(issued.certificates.as_dict()),
        pair.public, pair.private,
    )  # fmt: skip
    export_devid(state, folder / "devid")
    return Devid(tpm, tree, folder / "devid", int(issued.ldevid_serial, 16))
