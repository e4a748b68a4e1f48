"""What NetBox shows of a run at each moment: its sentence, its percent and its steps."""

from fleetd.app import runs
from fleetd.core.names import RunId
from fleetd.core.outside import Part, WorkflowOutcome
from tests.integration.app.test_failures import until
from tests.worlds import Stage, an_intent


def on_its_disk(stage: Stage) -> RunId:
    """Bring a run to its disk part, the agent at work; the test tells what the actions do."""
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    run = RunId(stage.run().id)
    stage.tinkerbell.workflows[run, Part.DISK].outcome = WorkflowOutcome.RUNNING
    return run


def told(stage: Stage, run: RunId, action: str, kind: str, percent: float | None = None) -> dict:
    """Let the action tell something; return what the machine's page shows after it."""
    stage.seqs[run] = stage.seqs.get(run, 0) + 1
    with stage.sessions.begin() as session:
        runs.record_event(session, run, runs.MachineEvent(stage.seqs[run], action, kind, percent), stage.clock.now())
    stage.turn()
    return stage.netbox.shown()


def test_each_moment_of_the_disk_part_has_its_own_sentence_and_percent(stage: Stage) -> None:
    run = on_its_disk(stage)

    seen = [
        (shown["message"], shown.get("percent"), shown["run"]["percent"])
        for shown in (
            told(stage, run, "guard", "started"),
            told(stage, run, "guard", "finished"),
            told(stage, run, "erase", "started"),
            told(stage, run, "erase", "progress", 40),
            told(stage, run, "erase", "finished"),
            told(stage, run, "write-image", "started"),
            told(stage, run, "write-image", "progress", 5),
        )
    ]

    assert seen == [
        ("The machine looks for its declared disk.", None, None),
        ("The declared disk is found. Waiting for what the machine does next.", None, None),
        ("The disk is being erased.", None, None),
        ("The disk is being erased.", 40, 40),
        ("The disk is erased. Waiting for what the machine does next.", None, None),
        ("The image is being written.", None, None),
        ("The image is being written.", 5, 5),
    ]


def test_the_disk_part_begins_without_a_word_about_the_enrollment(stage: Stage) -> None:
    run = on_its_disk(stage)
    stage.tell(run, "enroll", "finished")
    stage.turn()

    assert stage.netbox.shown()["message"] == "Waiting for the machine to begin with its disk."


def test_an_erase_that_begins_anew_after_a_power_cut_begins_at_no_percent(stage: Stage) -> None:
    run = on_its_disk(stage)
    told(stage, run, "erase", "started")
    told(stage, run, "erase", "progress", 80)

    shown = told(stage, run, "erase", "started")

    assert shown["percent"] is None
    assert [(step["name"], step["percent"]) for step in shown["run"]["steps"] if step["name"] == "erase"] == [
        ("erase", None)
    ]


def test_no_percent_stays_when_the_machine_reboots_and_none_when_the_run_has_ended(stage: Stage) -> None:
    run = on_its_disk(stage)
    told(stage, run, "erase", "progress", 80)

    stage.walk()

    assert stage.netbox.shown()["percent"] is None
    assert all(entry.get("percent") is None for entry in stage.netbox.reports if entry.get("phase") == "configuring")


def test_a_step_that_a_failed_run_left_behind_is_not_shown_as_running(stage: Stage) -> None:
    run = on_its_disk(stage)
    told(stage, run, "erase", "started")
    told(stage, run, "erase", "progress", 10)
    stage.clock.pass_by(minutes=16)
    stage.turn()

    shown = stage.netbox.shown()["run"]

    assert shown["result"] == "failed"
    assert {step["name"]: step["state"] for step in shown["steps"]}["erase"] == "failed"
    assert all(step["state"] != "running" for step in shown["steps"])
