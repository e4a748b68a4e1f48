"""A seed that was written to the disk before the first boot: cloud-init puts it where a claimed one would be."""

import json
from pathlib import Path
from uuid import UUID

from fleet_machine.challenge import unbase64
from fleet_machine.failure import FleetError
from fleet_machine.seed.devid import keep_installed
from fleet_machine.seed.state import SEED_FILE, Certificates, InstalledState
from fleet_machine.seed.ticket import jwks_text, pem_text
from fleet_machine.settings import checked_url
from fleet_machine.tpm import LakAlgorithm


def delivered_state(folder: Path) -> InstalledState | None:
    """Return what the seed in the state folder says; None when there is none. Raises FleetError when it is damaged."""
    path = folder / SEED_FILE
    try:
        seed = json.loads(path.read_bytes())
        if seed.get("version") != 1:
            raise FleetError(f"{path} is of a version that this client does not know.")
        certificates = seed.get("certificates")
        return InstalledState(
            int(seed["machine"]),
            str(UUID(seed["run"])),
            checked_url(seed["endpoints"]["fleetd"]),
            pem_text(seed["ca"]),
            jwks_text(seed["keys"]),
            unbase64(seed["lak_unique"]),
            LakAlgorithm.named(str(seed["lak_algorithm"])),
            Certificates.from_json(certificates) if certificates else None,
            unbase64(seed["devid"]["public"]),
            unbase64(seed["devid"]["private"]),
            str(seed.get("devid_folder", "")),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FleetError(f"{path} is damaged: {error!r}. Provision this machine again.") from error


def adopt(folder: Path, state: InstalledState) -> None:
    """Keep the state of a delivered seed, and close the seed to everybody but root."""
    (folder / SEED_FILE).chmod(0o600)
    keep_installed(folder, state)
