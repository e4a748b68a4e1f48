"""`fleetd machines`, `fleetd runs` and `fleetd evidence`, on the store of a stage."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select
from typer.testing import CliRunner

from fleetd.app.poll import poll
from fleetd.ca.signer import write_key
from fleetd.ca.tree import Tree
from fleetd.cli import machines as commands
from fleetd.cli import program
from fleetd.core.declaration import BaselineDecision, Vanished
from fleetd.core.names import IntentKind, MachineId
from fleetd.core.outside import JobOutcome
from fleetd.store.audit import AuditRow
from tests.integration.app.test_failures import until
from tests.integration.app.test_walks import active
from tests.worlds import Stage, a_declaration, an_intent, speaking

M = MachineId(7)


@pytest.fixture
def fleetd(stage: Stage, engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return the program on the stage's store, its clock and its outside, with the service key on disk."""
    key = Ed25519PrivateKey.generate()
    stage.speaker = speaking(key)
    place = Tree(tmp_path / "ca").service_key_file
    place.parent.mkdir(parents=True, exist_ok=True)
    write_key(place, key)
    config = tmp_path / "fleetd.toml"
    url = engine.url.render_as_string(hide_password=False)
    config.write_text(f'[database]\nurl = "{url}"\n[ca]\ndirectory = "{tmp_path}/ca"\n')
    monkeypatch.setattr(commands.Parts, "clock", stage.clock)
    monkeypatch.setattr(commands.Parts, "world", property(lambda _: stage.world()))
    monkeypatch.setenv("SUDO_USER", "olga")

    def run(*arguments: object, typed: str | None = None):
        return CliRunner().invoke(program(), ["--config", str(config), *map(str, arguments)], input=typed)

    return run


def said(stage: Stage, what: str) -> tuple[str, str]:
    """Return who said it and why, as the audit keeps it."""
    with stage.sessions() as session:
        row = session.scalars(select(AuditRow).where(AuditRow.what == what)).one()
        return row.who, row.detail["reason"]


# --- what is known ---


def test_machines_are_listed_with_phase_and_words(stage, fleetd):
    stage.netbox.declare(a_declaration(8))
    active(stage)

    found = json.loads(fleetd("machines", "list", "--json").stdout)

    assert {item["node"]: item["phase"] for item in found} == {"node7": "active", "node8": "declared"}
    assert [item["node"] for item in json.loads(fleetd("machines", "list", "--phase", "active", "--json").stdout)] == [
        "node7"
    ]
    assert "node8" in fleetd("machines", "list").stdout


def test_a_machine_is_shown_by_name_and_by_number(stage, fleetd):
    active(stage)

    by_name = json.loads(fleetd("machines", "show", "node7", "--json").stdout)

    assert by_name == json.loads(fleetd("machines", "show", "7", "--json").stdout)
    assert by_name["run"]["outcome"] == "succeeded"
    assert [change["result"] for change in by_name["check_changes"]] == ["ok"]
    assert by_name["declared"]["disk"]["serial"] == "disk7"


@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_machine_that_nobody_knows_is_said_to_be_unknown(stage, fleetd, command):
    done = fleetd("machines", command, "nobody")

    assert done.exit_code == 2
    assert "0 machines are called nobody" in done.stderr


def test_explain_names_what_a_machine_waits_for_and_what_to_do(stage, fleetd):
    stage.bmc.ready = False
    stage.netbox.ask(an_intent())
    stage.turn()
    stage.world()

    done = fleetd("machines", "explain", "node7")

    assert "provision asked by anna is at the step gated" in done.stdout
    assert "bmc7" in done.stdout
    assert "  -> " in done.stdout


def test_explain_says_what_ended_a_run_and_what_to_do_next(stage, fleetd):
    stage.netbox.ask(an_intent(confirmed_serial="other"))
    stage.turn()

    done = fleetd("machines", "explain", "node7")

    assert "ended failed" in done.stdout
    assert "  -> " in done.stdout


def test_explain_says_that_the_service_itself_stands_still(stage, fleetd):
    stage.netbox.ask(an_intent())
    stage.turn()
    stage.clock.pass_by(minutes=10)

    done = fleetd("machines", "explain", "node7")

    assert "Check that fleetd beat and fleetd worker run" in done.stdout
    assert "A look at this machine is due since" in done.stdout


def test_explain_of_a_machine_of_which_nothing_is_asked_points_to_netbox(stage, fleetd):
    stage.turn()

    lines = json.loads(fleetd("machines", "explain", "node7", "--json").stdout)

    assert lines[0]["next_step"] == "Ask for an action in NetBox."


def test_explain_asks_for_the_hand_that_a_machine_without_a_bmc_waits_for(stage, fleetd):
    stage.netbox.change(bmc_address="", bmc_secret="")
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    assert "  -> Start the machine by hand" in fleetd("machines", "explain", "node7").stdout


def test_explain_asks_for_the_approval_that_a_key_waits_for(stage, fleetd):
    stage.unapproved.add(M)
    stage.netbox.ask(an_intent())
    until(stage, "awaiting-key")

    assert "approve the key in NetBox" in fleetd("machines", "explain", "node7").stdout


def test_explain_points_to_a_bmc_that_fails_also_in_the_pause_between_two_tries(stage, fleetd):
    stage.bmc.answer = JobOutcome.FAILED
    stage.netbox.ask(an_intent())
    until(stage, "powering-on")
    for _ in range(3):
        stage.clock.pass_by(seconds=6)
        stage.turn()

    said = fleetd("machines", "explain", "node7").stdout

    assert "The BMC failed" in said
    assert "  -> Check the BMC" in said


# --- what only a person can say ---


def test_a_lost_machine_is_declared_with_who_and_why(stage, fleetd):
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    stage.turn()

    done = fleetd("machines", "declare-lost", "node7", "--reason", "stolen", typed="y\n")

    assert done.exit_code == 0, done.output
    assert said(stage, "declared-lost") == ("olga", "stolen")
    assert stage.walk().outcome == "succeeded"


def test_without_a_retirement_under_way_lost_is_refused_and_the_way_is_named(stage, fleetd):
    active(stage)

    done = fleetd("machines", "declare-lost", "node7", "--reason", "stolen", "--yes")

    assert done.exit_code == 1
    assert "ask for one in NetBox first" in done.stderr


def test_who_does_not_confirm_declares_nothing(stage, fleetd):
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    stage.turn()

    done = fleetd("machines", "declare-lost", "node7", "--reason", "stolen", typed="n\n")

    assert done.exit_code == 1
    assert stage.run().lost_by == ""


@pytest.mark.parametrize("command", ["declare-lost", "release", "forget"])
def test_a_wish_without_a_reason_is_refused(stage, fleetd, command):
    stage.turn()

    done = fleetd("machines", command, "node7", "--reason", " ")

    assert done.exit_code == 1
    assert "--reason is empty" in done.stderr


def test_a_person_vouches_for_an_undeclared_disk(stage, fleetd):
    stage.further_disks = ["stray1"]
    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    stage.walk(turns=20)
    assert "vouch NODE --disk SERIAL" in fleetd("machines", "explain", "node7").stdout

    done = fleetd("machines", "vouch", "node7", "--disk", " STRAY1", "--reason", "empty", "--by", "dora")

    assert done.exit_code == 0, done.output
    assert said(stage, "vouched") == ("dora", "empty")
    assert stage.walk().outcome == "succeeded"


@pytest.mark.parametrize("what", [[], ["--disk", "a", "--power-off"]])
def test_vouching_for_nothing_or_two_things_is_refused(stage, fleetd, what):
    stage.turn()

    assert fleetd("machines", "vouch", "node7", "--reason", "x", *what).exit_code == 2


def test_a_quarantine_is_released_by_a_person_and_the_next_good_attest(stage, fleetd):
    active(stage)
    refused = fleetd("machines", "release", "node7", "--reason", "reviewed")
    assert (refused.exit_code, "not quarantined" in refused.stderr) == (1, True)
    stage.check(result="drifted", digest="bb")
    stage.netbox.change(baseline_decision=BaselineDecision("bb", accepted=False, by="dora", at=stage.clock.now()))
    stage.turn()
    assert "quarantined" in fleetd("machines", "explain", "node7").stdout.lower()

    done = fleetd("machines", "release", "node7", "--reason", "reviewed")

    assert done.exit_code == 0, done.output
    assert said(stage, "release-requested") == ("olga", "reviewed")
    assert stage.machine().release_requested_at is not None


def test_only_a_machine_whose_record_vanished_is_forgotten(stage, fleetd):
    active(stage)
    refused = fleetd("machines", "forget", "node7", "--reason", "sold", "--yes")
    assert (refused.exit_code, "still declared" in refused.stderr) == (1, True)
    stage.netbox.declare(Vanished(M))
    stage.turn()
    assert "forget" in fleetd("machines", "explain", "node7").stdout

    done = fleetd("machines", "forget", "node7", "--reason", "sold", "--yes")

    assert done.exit_code == 0, done.output
    assert stage.machine().standing == "retired"
    assert stage.tinkerbell.hardware == {}


def test_forget_says_when_tinkerbell_is_away_and_forgets_nothing(stage, fleetd):
    active(stage)
    stage.netbox.declare(Vanished(M))
    stage.turn()
    stage.tinkerbell.away = True

    done = fleetd("machines", "forget", "node7", "--reason", "sold", "--yes")

    assert (done.exit_code, "Tinkerbell does not answer" in done.stderr) == (1, True)
    assert stage.machine().standing == "active"


# --- evidence ---


def test_runs_are_listed_newest_first(stage, fleetd):
    stage.netbox.ask(an_intent())
    stage.walk()
    stage.clock.pass_by(minutes=1)
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    stage.walk()

    found = json.loads(fleetd("runs", "list", "--json").stdout)

    assert [(item["kind"], item["state"]) for item in found] == [("wipe", "succeeded"), ("provision", "succeeded")]
    assert "wipe" in fleetd("runs", "list").stdout


def test_a_run_is_shown_with_who_asked_each_step_and_what_the_machine_told(stage, fleetd):
    stage.netbox.ask(an_intent())
    run = stage.walk()

    shown = json.loads(fleetd("runs", "show", str(run.id)[:8], "--json").stdout)

    assert (shown["node"], shown["kind"], shown["state"], shown["deadline"]) == (
        "node7",
        "provision",
        "succeeded",
        None,
    )
    assert shown["asked"]["requested_by"] == an_intent().requested_by
    steps = [step["name"] for step in shown["steps"]]
    assert steps.index("attesting") < steps.index("erasing") < steps.index("handing-over")
    assert {step["state"] for step in shown["steps"]} == {"done"}
    assert ("erase", "finished") in {(told["action"], told["kind"]) for told in shown["told"]}
    assert {kept["part"]: kept["outcome"] for kept in shown["workflows"]} == {"attest": "success", "disk": "success"}
    assert shown["records"] == [{"kind": "erase", "subject": "disk7"}]
    assert json.loads(fleetd("runs", "show", run.id).stdout) == shown
    assert fleetd("runs", "show", "00000000").exit_code == 2


def test_a_run_is_cancelled_in_netbox_only_and_the_command_says_where(stage, fleetd):
    stage.netbox.ask(an_intent())
    stage.turn()
    before = stage.run().state_name

    refused = fleetd("runs", "cancel", str(stage.run().id)[:8])

    assert refused.exit_code == 1
    assert "http://127.0.0.1:8000/plugins/fleet/machines/7/ and press Cancel" in refused.stderr
    assert "http://127.0.0.1:8000/api/plugins/fleet/machines/7/cancel/" in refused.stderr
    assert (stage.run().state_name, stage.run().outcome) == (before, "")


def test_a_run_that_is_cancelled_or_over_needs_no_cancelling(stage, fleetd):
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    stage.netbox.cancel()
    poll(stage.world())
    run = stage.run()

    cancelled = fleetd("runs", "cancel", run.id)
    stage.walk()
    over = fleetd("runs", "cancel", run.id)

    assert (cancelled.exit_code, "ends at its next safe step" in cancelled.stdout) == (0, True)
    assert (over.exit_code, over.stdout.strip()) == (0, f"run {run.id} (provision) is over: cancelled")
    assert fleetd("runs", "cancel", "00000000").exit_code == 2


def test_evidence_is_written_with_a_page_and_keys_and_verifies_anywhere(stage, fleetd, tmp_path):
    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    run = stage.walk()

    done = fleetd("runs", "evidence", str(run.id)[:8], "--out", tmp_path / "out")

    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"run-{run.id}.json", f"run-{run.id}.html", "record-keys.json"}
    page = (tmp_path / "out" / f"run-{run.id}.html").read_text()
    assert "disk7" in page
    assert "Retirement" in page
    elsewhere = CliRunner().invoke(
        program(),
        [
            "--config", str(tmp_path / "absent.toml"), "evidence", "verify", str(tmp_path / "out" / f"run-{run.id}.json"),
            "--jwks", str(tmp_path / "out" / "record-keys.json"),
        ],
    )  # fmt: skip
    assert elsewhere.exit_code == 0, elsewhere.output
    assert "record 1 of 2: genuine" in elsewhere.stdout
    assert "disk disk7 erased by overwrite (deep)" in elsewhere.stdout


def test_what_netbox_holds_of_a_run_verifies_too(stage, fleetd, tmp_path):
    stage.netbox.ask(an_intent())
    stage.walk()
    (tmp_path / "netbox.json").write_text(json.dumps(stage.netbox.shown()["run"]))

    done = fleetd("evidence", "verify", tmp_path / "netbox.json", "--json")

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["disk"]["serial"] == "disk7"


def test_a_changed_record_ends_with_1_and_the_good_one_is_still_shown(stage, fleetd, tmp_path):
    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    stage.walk()
    one, two = (item["jws"] for item in stage.netbox.shown()["run"]["evidence"]["records"])
    head, body, signature = two.split(".")
    (tmp_path / "records").write_text(f"{one}\n{head}.{body[:-8]}AAAAAAAA.{signature}\n")

    done = fleetd("evidence", "verify", tmp_path / "records")

    assert done.exit_code == 1
    assert "record 1 of 2: genuine" in done.stdout
    assert "record 2 of 2: NOT GENUINE" in done.stderr


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_file_without_records_ends_with_2(stage, fleetd, tmp_path, content):
    (tmp_path / "file").write_bytes(content)

    assert fleetd("evidence", "verify", tmp_path / "file").exit_code == 2


def test_keys_that_cannot_be_read_end_with_2_and_say_so(stage, fleetd, tmp_path):
    (tmp_path / "file").write_text("a.b.c")
    (tmp_path / "keys").write_text("{}")

    done = fleetd("evidence", "verify", tmp_path / "file", "--jwks", tmp_path / "keys")

    assert (done.exit_code, "no JWKS" in done.stderr) == (2, True)


def test_a_run_without_records_and_one_that_does_not_exist_are_told_apart(stage, fleetd):
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    run = stage.walk()

    assert fleetd("runs", "evidence", run.id).exit_code == 1
    assert fleetd("runs", "evidence", "00000000").exit_code == 2
    assert fleetd("runs", "evidence", "%").exit_code == 2
