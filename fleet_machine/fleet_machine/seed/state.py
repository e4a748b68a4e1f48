"""What the installed system keeps: where fleetd is, its certificates, and how to make its LAK again. No key.

The LAK is made again from `lak_unique` by the same TPM; the LDevID's private part is wrapped by the TPM.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography import x509

from fleet_machine.challenge import base64_text, unbase64
from fleet_machine.failure import FleetError
from fleet_machine.jws import ServiceKeys
from fleet_machine.runfolder import write_private
from fleet_machine.settings import PATIENCE, Service
from fleet_machine.tpm import LakAlgorithm

STATE_FOLDER = Path("/var/lib/fleet")
STATE_FILE, SEED_FILE = "state.json", "seed.json"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The machine's certificates, PEM."""

    ldevid: str
    lak: str
    chain: tuple[str, ...]

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Certificates":
        """Read the JSON form. Raises ValueError when one is no certificate."""
        found = cls(str(held["ldevid"]), str(held["lak"]), tuple(str(item) for item in held["chain"]))
        found.serials()
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"ldevid": self.ldevid, "lak": self.lak, "chain": list(self.chain)}

    def serials(self) -> tuple[str, ...]:
        """Return the serial numbers of LDevID and LAK certificate, lower-case hex, ascending."""
        pems = (self.ldevid, self.lak)
        return tuple(sorted(f"{x509.load_pem_x509_certificate(pem.encode()).serial_number:x}" for pem in pems if pem))


@dataclass(frozen=True, slots=True)
class InstalledState:
    """The state of an installed machine."""

    machine: int
    run: str
    url: str
    ca: str
    keys: bytes
    lak_unique: bytes
    lak_algorithm: LakAlgorithm | None
    certificates: Certificates | None
    devid_public: bytes
    devid_private: bytes
    devid_folder: str = ""
    """Where the class wants the LDevID's files; nowhere where empty."""

    def service(self, environment: Mapping[str, str], patience: float = PATIENCE) -> Service:
        """Return the fleetd that installed this machine. Raises FleetError."""
        source = environment.get("FLEET_SOURCE_ADDRESS", "")
        return Service(self.url, self.ca, ServiceKeys.from_jwks(self.keys), patience, source)

    def serials(self) -> tuple[str, ...]:
        """Return the serials of the installed certificates."""
        return self.certificates.serials() if self.certificates else ()


def load_state(folder: Path) -> InstalledState | None:
    """Return the state; None before the seed was claimed. Raises FleetError when it is damaged."""
    path = folder / STATE_FILE
    try:
        held = json.loads(path.read_bytes())
        certificates = held.get("certificates")
        return InstalledState(
            int(held["machine"]),
            str(held["run"]),
            str(held["url"]),
            str(held["ca"]),
            unbase64(held["keys"]),
            unbase64(held["lak_unique"]),
            LakAlgorithm.named(str(held["lak_algorithm"])),
            Certificates.from_json(certificates) if certificates else None,
            unbase64(held["devid"]["public"]),
            unbase64(held["devid"]["private"]),
            str(held.get("devid_folder", "")),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FleetError(f"{path} is damaged: {error!r}. Provision this machine again.") from error


def keep_state(folder: Path, state: InstalledState) -> None:
    """Write the state and the certificates beside it (`ldevid.pem`, `lak.pem`, `chain.pem`), private to root."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if state.certificates:
        write_private(folder / "ldevid.pem", state.certificates.ldevid.encode())
        write_private(folder / "lak.pem", state.certificates.lak.encode())
        write_private(folder / "chain.pem", "".join(state.certificates.chain).encode())
    document = {
        "version": 1,
        "machine": state.machine,
        "run": state.run,
        "url": state.url,
        "ca": state.ca,
        "keys": base64_text(state.keys),
        "lak_unique": base64_text(state.lak_unique),
        "lak_algorithm": state.lak_algorithm.value if state.lak_algorithm else "",
        "certificates": state.certificates.as_json() if state.certificates else None,
        "devid": {"public": base64_text(state.devid_public), "private": base64_text(state.devid_private)},
        "devid_folder": state.devid_folder,
    }
    write_private(folder / STATE_FILE, json.dumps(document, indent=1).encode())


def with_certificates(state: InstalledState, certificates: Certificates) -> InstalledState:
    """Return the state with renewed certificates."""
    return replace(state, certificates=certificates)
