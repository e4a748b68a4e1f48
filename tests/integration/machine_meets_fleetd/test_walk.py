"""The real client with a real software TPM against the real machine listener over HTTPS: nothing between them is played."""

import json
from dataclasses import replace

from sqlalchemy import select

from fleet_machine.actions import run_action
from fleet_machine.runfolder import RunFolder
from fleet_machine.seed.commands import run_boot_check, run_claim_seed
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.store.endorsement_keys import EndorsementKeyRow
from tests.integration.fleet_machine.surroundings import QuickClock
from tests.integration.http import machines
from tests.integration.machine_meets_fleetd.setting import NUMBER, begin, events, install


def test_an_approved_machine_enrolls_and_gets_its_certificates(service, fleetd, machine):
    run = begin(service, machine)

    assert run_action("enroll", fleetd.environment(run), machine) == 0, machine.console.lines
    assert RunFolder(machine.run_folder).session().node_name == f"node-{NUMBER}"
    assert events(service, "enroll") == ["finished"]


def test_an_unknown_machine_is_proven_and_waits_for_a_person(service, fleetd, machine):
    declaration = machines.a_declaration(NUMBER)
    run = service.run(declaration, IntentKind.PROVISION, states.Attesting)

    assert run_action("enroll", fleetd.environment(run, FLEET_PATIENCE="1"), waiting_once(machine)) == 1
    with service.sessions() as session:
        assert len(session.scalars(select(EndorsementKeyRow)).all()) == 3
    assert "Fingerprint" in machine.console


def waiting_once(machine):
    """The machine gives up at its second wait, so that the test ends."""
    waits = []

    class Once(QuickClock):
        def sleep(self, seconds):
            waits.append(seconds)
            if len(waits) > 1:
                raise OSError("the test is over")

    return replace(machine, clock=Once())


def test_a_repeated_enrollment_of_a_run_keeps_lak_and_ldevid(service, fleetd, machine, tmp_path):
    run = begin(service, machine)
    run_action("enroll", fleetd.environment(run), machine)
    first = RunFolder(machine.run_folder).ldevid()
    after_power_cut = replace(machine, run_folder=tmp_path / "second")

    assert run_action("enroll", fleetd.environment(run), after_power_cut) == 0, machine.console.lines
    # What fleetd keeps of the run is loaded again; nothing new is made.
    assert first is not None
    assert RunFolder(after_power_cut.run_folder).ldevid() is None


def test_from_enrollment_to_the_first_boot_check(service, fleetd, machine, tpm, tmp_path):
    installed = install(service, fleetd, machine, tpm, tmp_path)

    folder = tmp_path / "var"
    assert run_claim_seed(installed, {}, None, folder) == 0, machine.console.lines
    seed = json.loads((folder / "seed.json").read_text())
    assert (seed["device"], seed["machine"]) == (f"node-{NUMBER}", NUMBER)
    assert seed["certificates"]["ldevid"].startswith("-----BEGIN CERTIFICATE")

    assert run_boot_check(installed, {}, folder, once=True) == 0, machine.console.lines
    service.clock.pass_by(seconds=1)
    assert run_boot_check(installed, {}, folder, once=True) == 0, machine.console.lines
