"""The audit as an operator sees it: `fleetd audit verify` and `export` over a real database and a real service key."""

import json
import os
from datetime import UTC, datetime

import pytest
from sqlalchemy import delete, text, update
from typer.testing import CliRunner

from fleetd.ca.service_keys import ServiceKeys
from fleetd.ca.speaker import AuditSigner
from fleetd.ca.tree import make_tree
from fleetd.cli import program
from fleetd.core.names import MachineId
from fleetd.store.audit import AuditRow, chain, record
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.tables import METADATA

ROWS = 12


class Random:
    def bytes(self, count):
        return os.urandom(count)


class Audited:
    """A database with a chained audit, and the program."""

    def __init__(self, folder, address):
        self.engine = open_engine(address)
        METADATA.create_all(self.engine)
        self.sessions, self.folder = session_factory(self.engine), folder
        make_tree(folder / "ca", "Example", "https://fleetd.example.org", datetime.now(UTC), Random())
        self.signer = AuditSigner(ServiceKeys(folder / "ca"))
        self.config = folder / "fleetd.toml"
        self.config.write_text(f'[database]\nurl = "{address}"\n[ca]\ndirectory = "{folder}/ca"\n')
        self.add(ROWS)

    def add(self, count):
        with self.sessions.begin() as session:
            for number in range(count):
                record(session, datetime.now(UTC), "tested", who="anna", machine=MachineId(number % 3), number=number)
        with self.sessions.begin() as session:
            chain(session, self.signer.sign)

    def run(self, *arguments):
        return CliRunner().invoke(program(), ["--config", str(self.config), "audit", *map(str, arguments)])

    def change(self, statement):
        with self.sessions.begin() as session:
            session.execute(statement)

    def head(self):
        return self.run("verify").output.split("head ")[1].split(";")[0]


@pytest.fixture
def audited(empty_database, tmp_path):
    made = Audited(tmp_path, empty_database)
    yield made
    made.engine.dispose()


def test_an_untouched_chain_holds(audited):
    done = audited.run("verify")

    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{ROWS} rows hold; head ")


@pytest.mark.parametrize(
    "tampering",
    [
        delete(AuditRow).where(AuditRow.position == 5),
        update(AuditRow).where(AuditRow.position == 5).values(who="somebody else"),
        update(AuditRow).where(AuditRow.position == 5).values(detail={"number": 99}),
        update(AuditRow).where(AuditRow.position == 5).values(signature="AAAA"),
        text("UPDATE audit SET position = position + 100 WHERE position >= 5"),
    ],
)
def test_a_row_that_was_removed_or_changed_is_named(audited, tampering):
    audited.change(tampering)

    done = audited.run("verify")

    assert done.exit_code == 1
    assert "breaks at position 5" in done.output


def test_a_chain_made_anew_without_the_service_key_does_not_hold(audited):
    audited.change(delete(AuditRow).where(AuditRow.position == 5))
    audited.change(text("UPDATE audit SET position = NULL, digest = '', signature = ''"))
    with audited.sessions.begin() as session:
        chain(session, lambda message: message.decode()[:10])

    assert "breaks at position 1" in audited.run("verify").output


def test_an_end_that_was_cut_off_shows_by_a_head_that_was_noted(audited):
    head = audited.head()
    audited.add(3)
    assert audited.run("verify", "--expect", head).exit_code == 0

    audited.change(delete(AuditRow).where(AuditRow.position >= ROWS))

    assert audited.run("verify").exit_code == 0, "by itself a shorter chain is a chain"
    done = audited.run("verify", "--expect", head)
    assert done.exit_code == 1
    assert "cut off" in done.output


def test_an_export_is_verified_without_the_database(audited, tmp_path):
    exported = audited.run("export").output
    copy = tmp_path / "audit.jsonl"
    copy.write_text(exported)
    audited.change(delete(AuditRow))

    assert audited.run("verify", "--file", copy).output.startswith(f"{ROWS} rows hold")

    lines = exported.splitlines()
    lines[3] = json.dumps({**json.loads(lines[3]), "who": "nobody"})
    copy.write_text("\n".join(lines))
    assert "breaks at position 4" in audited.run("verify", "--file", copy).output


def test_an_export_can_begin_late_or_be_of_one_machine(audited):
    positions = [json.loads(line)["position"] for line in audited.run("export", "--after", 9).output.splitlines()]
    machines = {json.loads(line)["machine"] for line in audited.run("export", "--machine", 2).output.splitlines()}

    assert positions == [10, 11, 12]
    assert machines == {2}


def test_a_file_that_is_no_export_is_refused(audited, tmp_path):
    (tmp_path / "x").write_text("{}\n")

    done = audited.run("verify", "--file", tmp_path / "x")

    assert done.exit_code == 2
    assert "line 1" in done.output
