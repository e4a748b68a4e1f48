"""What a person says of a machine in NetBox reaches fleetd with its declaration, and is answered once."""

from uuid import uuid4

from sqlalchemy import select

from fleetd.core.declaration import BaselineDecision, Statement
from fleetd.core.names import IntentKind, MachineId, RunId, StatementKind
from fleetd.store.audit import AuditRow
from tests.integration.app.test_evidence import retirement
from tests.integration.app.test_failures import until
from tests.integration.app.test_walks import active
from tests.worlds import START, Stage, an_intent

M = MachineId(7)


def said(kind: StatementKind, intent: RunId | None = None, subject: str = "", by: str = "bea") -> Statement:
    return Statement(uuid4(), kind, by, "I looked", START, subject, intent)


def answers(stage: Stage) -> list[tuple[str, str]]:
    return [(each["state"], each["message"]) for each in stage.netbox.shown().get("statements", ())]


def audited(stage: Stage, event: str) -> list[AuditRow]:
    with stage.sessions() as session:
        return list(session.scalars(select(AuditRow).where(AuditRow.what == event)))


def quarantined(stage: Stage) -> None:
    active(stage)
    stage.check(result="drifted", digest="bb")
    stage.netbox.change(baseline_decision=BaselineDecision("bb", accepted=False, by="dora", at=stage.clock.now()))
    stage.turn()
    assert stage.netbox.shown()["phase"] == "quarantined"


def attest(stage: Stage) -> None:
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()
    stage.clock.pass_by(minutes=1)
    stage.check()
    stage.walk()
    stage.turn()


def test_a_release_said_in_netbox_ends_the_quarantine_at_the_next_good_attest(stage: Stage) -> None:
    quarantined(stage)
    stage.netbox.change(statements=(said(StatementKind.RELEASE),))
    stage.turn()
    assert answers(stage) == [("taken", "")]
    assert stage.netbox.shown()["phase"] == "quarantined", "a word alone proves nothing"

    attest(stage)

    assert stage.netbox.shown()["phase"] == "active"
    assert stage.authority.held == set()
    assert [row.who for row in audited(stage, "release-requested")] == ["bea"]


def test_an_attest_that_was_asked_before_the_release_does_not_lift_the_quarantine(stage: Stage) -> None:
    quarantined(stage)
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()
    stage.clock.pass_by(minutes=1)
    stage.netbox.change(statements=(said(StatementKind.RELEASE),))
    stage.turn()
    stage.check()

    stage.walk()
    stage.turn()

    assert stage.netbox.shown()["phase"] == "quarantined"
    attest(stage)
    assert stage.netbox.shown()["phase"] == "active"


def test_a_statement_is_taken_once_however_often_it_is_read(stage: Stage) -> None:
    quarantined(stage)
    statement = said(StatementKind.RELEASE)
    for firmware in ("", "1", "2"):
        stage.netbox.change(statements=(statement,), firmware=firmware)
        stage.turn()

    assert len(audited(stage, "release-requested")) == 1
    assert answers(stage) == [("taken", "")]


def test_an_answer_is_told_again_to_a_netbox_that_forgot_it(stage: Stage) -> None:
    quarantined(stage)
    statement = said(StatementKind.RELEASE)
    for statements in ((statement,), (), (statement,)):
        stage.netbox.change(statements=statements)
        stage.turn()

    told = [entry["statements"] for entry in stage.netbox.reports if entry.get("statements")]
    assert [each[0]["id"] for each in told] == [str(statement.id)] * 2


def test_a_release_of_a_machine_that_is_trusted_is_refused_with_the_reason(stage: Stage) -> None:
    active(stage)
    stage.netbox.change(statements=(said(StatementKind.RELEASE),))

    stage.turn()

    assert answers(stage) == [("refused", "the machine is not quarantined")]


def test_a_machine_declared_lost_in_netbox_loses_its_credentials_and_is_named_with_who_said_so(stage: Stage) -> None:
    active(stage)
    intent = an_intent(IntentKind.WIPE)
    stage.netbox.ask(intent)
    until(stage, "netbooting", dark=True)

    stage.netbox.change(statements=(said(StatementKind.LOST, intent.id),))
    run = stage.walk()

    assert (run.outcome, run.lost_by) == ("succeeded", "bea")
    assert M in stage.authority.revoked
    assert len(stage.erased) == 1, "only the provision erased"


def test_a_word_that_comes_with_its_request_waits_for_the_run(stage: Stage) -> None:
    active(stage)
    intent = an_intent(IntentKind.WIPE)

    stage.netbox.change(intent=intent, statements=(said(StatementKind.LOST, intent.id),))
    run = stage.walk()

    assert run.lost_by == "bea"
    assert answers(stage)[0][0] == "taken"


def test_a_word_about_a_run_that_is_over_is_refused(stage: Stage) -> None:
    active(stage)
    first = RunId(stage.run().id)
    stage.netbox.change(statements=(said(StatementKind.LOST, first),))

    stage.turn()

    assert answers(stage) == [("refused", "the wipe or retirement that this was said in is over")]


def test_words_said_in_netbox_let_a_retirement_end_and_stand_in_its_record(stage: Stage) -> None:
    stage.further_disks = ["stray1"]
    intent = an_intent(IntentKind.RETIRE)
    stage.netbox.ask(intent)
    stage.walk(turns=20)
    assert stage.run().state_name == "withdrawing"
    assert "stray1" in stage.netbox.shown()["message"]

    stage.netbox.change(
        statements=(
            said(StatementKind.DISK, intent.id, "nothere"),
            said(StatementKind.DISK, intent.id, "stray1"),
            said(StatementKind.POWER_OFF, intent.id),
        )
    )
    stage.turn()
    told = answers(stage)
    run = stage.walk()

    assert run.outcome == "succeeded"
    assert [state for state, _ in told] == ["refused", "taken", "refused"]
    assert "stray1" in told[0][1]
    assert "BMC" in told[2][1]
    states = {disk["name"]: disk["state"] for disk in retirement(stage).payload["disks"]}
    assert states["stray1"] == "not erased: bea gave their word (I looked)"


def test_a_person_says_in_netbox_that_a_machine_without_bmc_is_off(stage: Stage) -> None:
    stage.netbox.change(bmc_address="", bmc_secret="")
    intent = an_intent(IntentKind.RETIRE)
    stage.netbox.ask(intent)
    stage.walk(turns=20)
    assert stage.run().state_name == "withdrawing"

    stage.netbox.change(statements=(said(StatementKind.POWER_OFF, intent.id),))

    assert stage.walk().outcome == "succeeded"
