"""Command line: `python3 -m fleet_machine action NAME | enroll | claim-seed | boot-check | export-devid DIR`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet_machine import VERSION
from fleet_machine.actions import ACTIONS, run_action
from fleet_machine.await_reboot import await_reboot
from fleet_machine.seed.commands import run_boot_check, run_claim_seed, run_export_devid
from fleet_machine.seed.state import STATE_FOLDER
from fleet_machine.surroundings import Surroundings


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="fleet-machine", description="What runs on a machine of the fleet.")
    top.add_argument("--version", action="version", version=VERSION)
    commands = top.add_subparsers(dest="command", required=True)
    action = commands.add_parser("action", help="run one action of a Workflow, as its FLEET_* environment says")
    action.add_argument("name", choices=sorted(ACTIONS))
    commands.add_parser("enroll", help="enroll with fleetd (the same as `action enroll`)")
    commands.add_parser("await-reboot", help="wait until fleetd allows the reboot, then reboot this host")
    claim = commands.add_parser("claim-seed", help="redeem the ticket on the ESP for this machine's seed")
    claim.add_argument("--ticket", type=Path, help="the ticket file; default: fleet/ticket.json on an ESP")
    check = commands.add_parser("boot-check", help="prove to fleetd, again and again, how this system booted")
    check.add_argument(
        "--once", action="store_true", help="check once: exits 0 ok, 3 drifted, 4 failed, 1 not possible"
    )
    export = commands.add_parser("export-devid", help="write the LDevID's files for SPIRE's tpm_devid")
    export.add_argument("folder", type=Path)
    for command in (claim, check, export):
        command.add_argument("--state", type=Path, default=STATE_FOLDER, help=f"default: {STATE_FOLDER}")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    asked = parser().parse_args(arguments)
    environment = dict(os.environ)
    around = Surroundings.of_this_host(environment)
    if asked.command == "action":
        return run_action(asked.name, environment, around)
    if asked.command == "enroll":
        return run_action("enroll", environment, around)
    if asked.command == "await-reboot":
        return await_reboot(around, environment)
    if asked.command == "claim-seed":
        return run_claim_seed(around, environment, asked.ticket, asked.state)
    if asked.command == "boot-check":
        return run_boot_check(around, environment, asked.state, once=asked.once)
    return run_export_devid(around, asked.state, asked.folder)


if __name__ == "__main__":
    sys.exit(main())
