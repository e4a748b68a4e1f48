"""A backup of fleetd's database, really dumped and restored with PostgreSQL's own tools, fires nothing that is over."""

import re
import shlex
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from fleetd.app import restored, runs
from fleetd.app.poll import poll
from fleetd.core.names import IntentKind, MachineId
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.tables import METADATA
from tests.integration.app.test_failures import until
from tests.worlds import Stage, a_declaration, an_intent

M = MachineId(7)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "restore.md"


class Database:
    """A database that can be backed up and put back."""

    def __init__(self, postgres, folder):
        self.postgres, self.folder, self.name = postgres, folder, f"restored_{uuid4().hex[:10]}"
        postgres.create(self.name)
        self.engine = open_engine(postgres.url(self.name))
        METADATA.create_all(self.engine)

    def dump(self):
        """Back it up, and return the file."""
        file = self.folder / f"{uuid4().hex}.dump"
        self.documented("pg_dump", file)
        return file

    def put_back(self, dump):
        """Put a dump back in place of the database, as an operator would."""
        self.engine.dispose()
        self.postgres.drop(self.name)
        self.documented("createdb", dump)
        self.documented("pg_restore", dump)
        with self.engine.begin() as connection:
            assert connection.execute(text("SELECT count(*) FROM machines")).scalar_one() == 1

    def documented(self, program, file):
        """Run the command of the page for operators, with this database and file in place of its own."""
        (line,) = re.findall(rf"^\s*\$ ({program} .*)$", PAGE.read_text(), re.MULTILINE)
        here = {"fleetd": self.name, "fleetd.dump": str(file)}
        self.postgres.run(*(here.get(word, word) for word in shlex.split(line)))


@pytest.fixture
def database(postgres, tmp_path):
    made = Database(postgres, tmp_path)
    yield made
    made.engine.dispose()
    postgres.drop(made.name)


@pytest.fixture
def stage(database):
    found = Stage(session_factory(database.engine))
    found.netbox.declare(a_declaration())
    return found


def do(stage: Stage, kind: IntentKind) -> None:
    """Walk a wish to its end; nothing of it is wished any more."""
    stage.netbox.ask(an_intent(kind))
    assert stage.walk().outcome == "succeeded"
    stage.turn()


def started_again(stage: Stage) -> None:
    """What a start of fleetd does: read everything, and the final runs, then work for a while."""
    poll(stage.world(), full=True)
    for _ in range(20):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=30)


def test_a_backup_from_before_a_wipe_does_not_wipe_again(stage, database):
    do(stage, IntentKind.PROVISION)
    before = database.dump()
    do(stage, IntentKind.WIPE)
    do(stage, IntentKind.PROVISION)
    erased = list(stage.erased)

    database.put_back(before)
    started_again(stage)

    assert stage.erased == erased
    assert stage.tinkerbell.workflows == {}
    assert not any(stage.tinkerbell.allowed.values())


@pytest.mark.parametrize("state", ["gated", "erasing"])
def test_a_backup_taken_in_the_middle_of_a_wipe_does_not_go_on_with_it(stage, database, state):
    do(stage, IntentKind.PROVISION)
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    if state != "gated":
        until(stage, state)
    else:
        stage.turn()
    middle = database.dump()
    assert stage.walk().outcome == "succeeded"
    stage.turn()
    do(stage, IntentKind.PROVISION)
    erased, booted = list(stage.erased), len(stage.bmc.booted)

    database.put_back(middle)
    started_again(stage)

    assert stage.erased == erased
    assert len(stage.bmc.booted) == booted, "the machine is not even started"


def test_no_leave_is_given_for_a_run_that_netbox_holds_as_final(stage, database):
    do(stage, IntentKind.PROVISION)
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    until(stage, "erasing")
    run = stage.run().id
    stage.netbox.finished.append(run)
    poll(stage.world(), full=True)
    with stage.sessions.begin() as session:
        answer = runs.grant(session, run, "erase", "disk7", stage.clock.now())

    assert isinstance(answer, runs.NotNow)
    assert "NetBox holds this run as final" in answer.why


def test_held_runs_wait_and_go_on_when_a_person_resumes(stage):
    do(stage, IntentKind.PROVISION)
    erased = len(stage.erased)
    with stage.sessions.begin() as session:
        restored.hold(session, "anna", stage.clock.now())
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    started_again(stage)
    assert len(stage.erased) == erased

    with stage.sessions.begin() as session:
        assert restored.resume(session, "anna", stage.clock.now())
    stage.walk(turns=60)

    assert len(stage.erased) == erased + 1
    with stage.sessions.begin() as session:
        assert not restored.resume(session, "anna", stage.clock.now())


def test_an_attestation_goes_on_while_runs_that_erase_are_held(stage):
    with stage.sessions.begin() as session:
        restored.hold(session, "anna", stage.clock.now())
    stage.netbox.ask(an_intent(IntentKind.ATTEST))

    assert stage.walk().outcome == "succeeded"
