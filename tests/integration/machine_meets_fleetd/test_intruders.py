"""Who sits between machine and fleetd, with a TPM of his own and all earlier messages at hand, gets nothing."""

import json
from dataclasses import replace

import pytest
from sqlalchemy import select

from fleet_machine.actions import run_action
from fleet_machine.client import FleetClient
from fleet_machine.seed.commands import run_boot_check, run_claim_seed
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.store.checks import CheckRow
from fleetd.store.enrollments import EnrollmentRow
from fleetd.store.tickets import TicketRow, TicketState
from tests.integration.fleet_machine.image import MIB
from tests.integration.fleet_machine.surroundings import QuickClock, a_machine, file_disk
from tests.integration.http.machines import a_declaration
from tests.integration.machine_meets_fleetd.setting import BootLog, Facts, begin, install, keys_of
from tests.swtpm import start_swtpm

CHALLENGES, ENROLLMENTS, CHECKS, REDEEM = "/v1/challenges", "/v1/enrollments", "/v1/checks", "/v1/seeds/redeem"


class Wire:
    """The network between client and fleetd: it records, and may change what passes."""

    def __init__(self, monkeypatch):
        self.sent, self.answered = [], []
        self.change_call = self.change_answer = lambda path, value: value
        real = FleetClient.call

        def call(client, method, path, body, *more, **options):
            changed = self.change_call(path, body)
            self.sent.append((path, changed))
            answer = self.change_answer(path, real(client, method, path, changed, *more, **options))
            self.answered.append((path, answer))
            return answer

        monkeypatch.setattr(FleetClient, "call", call)

    def last_sent(self, path):
        return json.loads(next(body for where, body in reversed(self.sent) if where == path))

    def answers(self, path):
        return [answer for where, answer in self.answered if where == path]

    def replace_fields(self, at, fields):
        """Put other values into the fields of each body that goes to this path."""
        self.change_call = lambda path, body: (
            json.dumps({**json.loads(body), **fields}).encode() if path == at else body
        )


@pytest.fixture
def wire(monkeypatch):
    return Wire(monkeypatch)


@pytest.fixture(scope="session")
def others_tpm(tmp_path_factory):
    with start_swtpm(tmp_path_factory.mktemp("others-tpm"), certificates=False) as running:
        yield running


@pytest.fixture
def intruder(tmp_path, others_tpm):
    """Another machine of the same kind: the same claims and the same boot, another TPM."""
    others_tpm.power_cycle()
    disk = file_disk(tmp_path / "others-disk", 32 * MIB, serial="LAB0001")
    made = a_machine(tmp_path / "others", others_tpm.tcti, disks=[disk], clock=QuickClock())
    return replace(made, facts=Facts(), event_log=BootLog(others_tpm))


def enroll(fleetd, run, machine):
    return run_action("enroll", fleetd.environment(run, FLEET_PATIENCE="1"), impatient(machine))


def impatient(machine):
    """The machine gives up where it would wait."""

    class Never(QuickClock):
        def sleep(self, seconds):
            raise OSError(f"the test waits for nothing ({seconds} s)")

    return replace(machine, clock=Never())


def enrolled(service):
    with service.sessions() as session:
        return len(session.scalars(select(EnrollmentRow)).all())


@pytest.fixture
def overheard(service, fleetd, intruder, wire):
    """The body of an enrollment that the intruder's own TPM made, for a challenge of its own."""
    run = begin(service, intruder)
    assert enroll(fleetd, run, intruder) == 0, intruder.console.lines
    return wire.last_sent(ENROLLMENTS)


PARTS = ["token", "activation", "eks", "lak", "ldevid", "quote", "certify"]


@pytest.mark.slow
@pytest.mark.parametrize("part", [*PARTS, "all but the token"])
def test_attack_a_message_with_a_part_of_another_tpm_s_is_refused(service, fleetd, machine, wire, overheard, part):
    """Each part of an enrollment comes from the intruder's TPM, which is proven and verified where it belongs."""
    before = enrolled(service)
    with service.sessions.begin() as session:
        for row in session.scalars(select(EnrollmentRow)):
            session.delete(row)
    names = [part] if part in PARTS else PARTS[1:]
    wire.replace_fields(ENROLLMENTS, {name: overheard[name] for name in names})

    assert enroll(fleetd, begin_again(service, machine), machine) == 1
    assert (before, enrolled(service)) == (1, 0)


def begin_again(service, machine):
    """A run of another machine, whose TPM this is."""
    declaration = a_declaration(8, keys=keys_of(machine), device_serial="", interfaces=())
    return service.run(declaration, IntentKind.PROVISION, states.Attesting)


def earlier(service, fleetd, machine, wire):
    """Enroll honestly; return what was sent, and the run."""
    run = begin(service, machine)
    assert enroll(fleetd, run, machine) == 0, machine.console.lines
    return wire.last_sent(ENROLLMENTS), run


@pytest.mark.parametrize("part", ["token", "activation", "quote", "certify", "all but the token"])
def test_attack_a_message_of_an_earlier_exchange_is_refused(service, fleetd, machine, wire, part):
    """The same TPM, the same keys, one challenge earlier."""
    sent, run = earlier(service, fleetd, machine, wire)
    names = [part] if part in PARTS else PARTS[1:]
    wire.replace_fields(ENROLLMENTS, {name: sent[name] for name in names})

    # A folder without a session: the machine was switched off and on.
    assert enroll(fleetd, run, replace(machine, run_folder=machine.run_folder / "again")) == 1
    assert enrolled(service) == 1


@pytest.mark.usefixtures("overheard")
def test_attack_an_answer_for_another_tpm_is_of_no_use(service, fleetd, machine, wire):
    """The intruder's challenge and the intruder's sealed result, signed by fleetd as they are."""
    theirs = {path: wire.answers(path)[-1] for path in (CHALLENGES, ENROLLMENTS)}
    run = begin_again(service, machine)
    for swapped in theirs:
        calls = []

        def change(path, answer, swapped=swapped, calls=calls):
            calls.append(path)
            # The first call to challenges asks for the unique of the LAK only.
            second = path == CHALLENGES and calls.count(CHALLENGES) == 2
            return theirs[path] if path == swapped and (second or path == ENROLLMENTS) else answer

        wire.change_answer = change
        folder = machine.run_folder / swapped.rpartition("/")[2]
        assert enroll(fleetd, run, replace(machine, run_folder=folder)) == 1, swapped
        assert not (folder / "session.json").exists()


def test_an_answer_that_fleetd_did_not_sign_is_not_believed(service, fleetd, machine, wire):
    run = begin(service, machine)

    def forged(path, answer):
        if path != CHALLENGES:
            return answer
        head, body, signature = answer.body["jws"].split(".")
        bent = signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")
        return replace(answer, body={"jws": f"{head}.{body}.{bent}"})

    wire.change_answer = forged

    assert enroll(fleetd, run, machine) == 1
    assert enrolled(service) == 0


@pytest.mark.slow
def test_attack_a_quote_of_another_time_or_purpose_redeems_no_seed_and_passes_no_check(
    service, fleetd, machine, wire, tpm, tmp_path
):
    installed = impatient(install(service, fleetd, machine, tpm, tmp_path))
    folder = tmp_path / "var"

    wire.replace_fields(REDEEM, {"quote": wire.last_sent(ENROLLMENTS)["quote"]})
    assert run_claim_seed(installed, {}, None, folder) != 0
    with service.sessions() as session:
        assert session.scalars(select(TicketRow)).one().state == TicketState.FRESH
    wire.replace_fields(REDEEM, {})
    # Nothing is burnt by a quote that is not the machine's.
    assert run_claim_seed(installed, {}, None, folder) == 0, machine.console.lines

    wire.replace_fields(CHECKS, {"quote": wire.last_sent(REDEEM)["quote"]})
    assert run_boot_check(installed, {}, folder, once=True) != 0
    with service.sessions() as session:
        assert session.scalars(select(CheckRow)).one().last_at is None
    wire.replace_fields(CHECKS, {})
    assert run_boot_check(installed, {}, folder, once=True) == 0, machine.console.lines

    service.clock.pass_by(seconds=1)
    wire.replace_fields(CHECKS, {"quote": wire.last_sent(CHECKS)["quote"]})
    assert run_boot_check(installed, {}, folder, once=True) != 0
