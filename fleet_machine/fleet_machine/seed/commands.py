"""What the installed system runs: claim the seed, check the boot, export the LDevID."""

from collections.abc import Mapping
from pathlib import Path

from fleet_machine.client import FleetClient
from fleet_machine.clock import FleetTime
from fleet_machine.failure import FleetError
from fleet_machine.seed.check import BootCheck, CheckResult
from fleet_machine.seed.claim import claim_seed
from fleet_machine.seed.delivered import adopt, delivered_state
from fleet_machine.seed.devid import export_devid
from fleet_machine.seed.state import InstalledState, load_state
from fleet_machine.seed.ticket import find_ticket
from fleet_machine.settings import PATIENCE, Service, seconds
from fleet_machine.surroundings import Surroundings

EXIT_OF_RESULT = {CheckResult.OK: 0, CheckResult.DRIFTED: 3, CheckResult.FAILED: 4}


def run_claim_seed(around: Surroundings, environment: Mapping[str, str], ticket: Path | None, folder: Path) -> int:
    """Redeem the ticket once; return 0 when state and seed are in `folder`, also from an earlier time. 1: failed.

    Where cloud-init has put the seed into `folder`, there is no ticket, and the seed is taken as it stands.
    """
    try:
        state = load_state(folder)
        found = find_ticket(ticket, around.disks, around.volumes)
        if found is None:
            return _without_ticket(around, state, folder)
        if state is not None and found.run == state.run:
            return 0
        service = found.service(environment, seconds(environment, "FLEET_PATIENCE", PATIENCE))
        claim_seed(around, _client(around, service), found, folder)
    except (FleetError, OSError) as error:
        around.console.say(f"claim-seed failed: {error}")
        return 1
    return 0


def _without_ticket(around: Surroundings, state: InstalledState | None, folder: Path) -> int:
    delivered = delivered_state(folder)
    if delivered is not None and (state is None or state.run != delivered.run):
        adopt(folder, delivered)
        around.console.say(f"The seed was here before the first boot: this is machine {delivered.machine}.")
        return 0
    if state is None:
        around.console.say("There is no ticket on this machine's ESP, and no seed was claimed before.")
        return 1
    return 0


def run_boot_check(around: Surroundings, environment: Mapping[str, str], folder: Path, *, once: bool) -> int:
    """Check once (0 ok, 3 drifted, 4 failed, 1 could not be made), or for ever."""
    try:
        state = _installed(folder)
        service = state.service(environment, seconds(environment, "FLEET_PATIENCE", PATIENCE))
        check = BootCheck(around, _client(around, service), state, folder)
        if once:
            return EXIT_OF_RESULT[check.once().result]
        check.forever()
    except (FleetError, OSError) as error:
        around.console.say(f"boot-check failed: {error}")
    return 1


def run_export_devid(around: Surroundings, folder: Path, target: Path) -> int:
    """Write the LDevID's files to `target`; return 0, or 1 after a failure that was said."""
    try:
        for path in export_devid(_installed(folder), target):
            around.console.say(f"wrote {path}")
    except (FleetError, OSError) as error:
        around.console.say(f"export-devid failed: {error}")
        return 1
    return 0


def _installed(folder: Path) -> InstalledState:
    state = load_state(folder)
    if state is None:
        raise FleetError(f"There is no state in {folder}: claim-seed has to run first.")
    return state


def _client(around: Surroundings, service: Service) -> FleetClient:
    return FleetClient(service, around.clock, around.console, FleetTime(around.clock))
