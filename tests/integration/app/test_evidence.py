"""What remains of a wipe and a retirement: signed records, every step, and the word of a person where one is needed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetd.app.wishes import WishRefusedError, declare_lost, vouch
from fleetd.core.declaration import Disk
from fleetd.core.evidence.verify import Record, keys_of, verified
from fleetd.core.names import DiskSerial, IntentKind, MachineId, RunId
from fleetd.core.outside import PowerState
from fleetd.store.certificates import CertificateRow, CertificateState
from fleetd.store.checks import CheckRow, new_check_row
from fleetd.store.evidence import POWER_OFF, deeds_of
from tests.integration.app.test_walks import active
from tests.worlds import FakeSpire, Stage, a_class, an_intent, erased

M = MachineId(7)
RETIRE = IntentKind.RETIRE


def records(stage: Stage) -> list[Record]:
    """Return the records that NetBox was given with the machine's last run, each verified."""
    keys = keys_of(stage.speaker.jwks())
    return [verified(item["jws"], keys) for item in stage.netbox.shown()["run"]["evidence"].get("records", ())]


def retirement(stage: Stage) -> Record:
    (found,) = [record for record in records(stage) if record.kind == "retirement"]
    return found


def say(stage: Stage, subject: str, by: str = "dora") -> None:
    with stage.sessions.begin() as session:
        vouch(session, M, subject, by, "looked at it", stage.clock.now())


def steps(stage: Stage) -> list[str]:
    with stage.sessions() as session:
        return [deed.step for deed in deeds_of(session, RunId(stage.run().id))]


@pytest.mark.parametrize("kind", [IntentKind.PROVISION, IntentKind.WIPE])
def test_every_erase_leaves_a_signed_record_with_netbox(stage: Stage, kind: IntentKind) -> None:
    stage.netbox.ask(an_intent(kind))

    run = stage.walk()

    (record,) = records(stage)
    assert record.payload["disk"]["serial"] == "disk7"
    assert (record.payload["disk"]["method"], record.payload["disk"]["samples"]) == ("overwrite", 1026)
    assert (record.payload["run"], record.payload["intent"]) == (str(run.id), kind.value)
    assert record.payload["machine"]["node_name"] == "node7"
    assert record.payload["witness"]["boot_judged"] is True


def test_several_disks_have_a_record_each(stage: Stage) -> None:
    stage.netbox.change(extra_disks=(Disk(DiskSerial("second")),))
    stage.netbox.ask(an_intent(IntentKind.WIPE))

    stage.walk()

    assert [record.payload["disk"]["serial"] for record in records(stage)] == ["disk7", "second"]


def test_an_erase_that_was_repeated_is_recorded_as_it_was_done_last(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.walk()
    run = RunId(stage.run().id)
    before = records(stage)[0].jws
    with stage.sessions.begin() as session:
        from fleetd.app.evidence import keep_erase_records
        from fleetd.app.rows import run_of
        from fleetd.store.evidence import records_of

        keep_erase_records(session, run_of(stage.run()), stage.speaker, stage.clock.now() + timedelta(days=1))
        assert records_of(session, run)[0].jws == before, "the same telling is signed once"

    stage.tell(run, "erase", "finished", {"disks": [erased("disk7") | {"end": "later"}]})
    with stage.sessions.begin() as session:
        keep_erase_records(session, run_of(stage.run()), stage.speaker, stage.clock.now())
        (row,) = records_of(session, run)

    assert verified(row.jws, keys_of(stage.speaker.jwks())).payload["disk"]["end"] == "later"


def test_the_first_disk_of_an_erase_that_failed_at_the_second_has_its_record(stage: Stage) -> None:
    stage.netbox.change(extra_disks=(Disk(DiskSerial("second")),))
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    stage.failing["erase"] = "the second disk does not answer"
    from tests.integration.app.test_failures import until

    until(stage, "erasing")
    run = RunId(stage.run().id)
    with stage.sessions.begin() as session:
        from fleetd.app import runs

        runs.grant(session, run, "erase", "disk7", stage.clock.now())
    stage.tell(run, "erase", "evidence", {"disks": [erased("disk7")]})

    stage.walk()

    assert stage.run().outcome == "failed"
    assert [record.payload["disk"]["serial"] for record in records(stage)] == ["disk7"]


def test_a_retirement_records_each_step_in_the_order_of_the_design(stage: Stage) -> None:
    active(stage)
    a_baseline(stage)
    stage.netbox.ask(an_intent(RETIRE))

    stage.walk()

    payload = retirement(stage).payload
    assert [step["step"] for step in payload["steps"]] == [
        "certificates", "keys", "tickets", "agents", "power-off", "hardware", "bmc", "reservations", "baseline",
    ]  # fmt: skip
    told = {step["step"]: step for step in payload["steps"]}
    assert told["power-off"]["message"] == "The BMC says that the machine is off."
    assert stage.reservations.removed == [M]
    assert (told["baseline"]["baseline_digest"], told["baseline"]["pcrs"]) == ("b" * 64, {"0": "aa"})
    assert [(disk["name"], disk["declared"], disk["state"][:6]) for disk in payload["disks"]] == [
        ("disk7", True, "erased")
    ]
    assert [step["name"] for step in stage.netbox.shown()["run"]["steps"]][-9:] == steps(stage)
    assert stage.netbox.shown()["phase"] == "retired"
    with stage.sessions() as session:
        assert session.get(CheckRow, M) is None


def a_baseline(stage: Stage) -> None:
    with stage.sessions.begin() as session:
        row = new_check_row(M, None, stage.clock.now())
        row.baseline, row.baseline_digest = {"pcrs": {"0": "aa"}}, "b" * 64
        session.add(row)


def test_spire_bans_the_agent_of_every_ldevid_before_the_erase(stage: Stage) -> None:
    active(stage)
    a_certificate(stage, "1f", "ldevid", b"devid")
    a_certificate(stage, "2f", "lak", b"lak")
    stage.spire = FakeSpire()
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    from tests.integration.app.test_failures import until

    until(stage, "erasing")

    assert stage.spire.banned == [b"devid"]
    assert stage.run().first_leave_at is None, "nothing is erased yet"
    stage.walk()
    assert "agents" in steps(stage)


def test_a_spire_that_is_away_holds_the_erase_but_not_the_revocation(stage: Stage) -> None:
    active(stage)
    stage.spire = FakeSpire(away=True)
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    for _ in range(20):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=6)
    assert M in stage.authority.revoked
    assert stage.erased == [(M, "disk7")], "only the provision erased"
    assert "SPIRE does not answer" in stage.run().message

    stage.spire.away = False

    assert stage.walk().outcome == "succeeded"


def a_certificate(stage: Stage, serial: str, kind: str, der: bytes) -> None:
    now = stage.clock.now()
    with stage.sessions.begin() as session:
        session.add(
            CertificateRow(
                serial=serial, kind=kind, issuer="i", machine_id=M, enrollment_id=RunId(stage.run().id), key_hash=serial,
                state=CertificateState.ISSUED, taken_at=now, der=der, not_before=now, not_after=now, reason="",
            )
        )  # fmt: skip


def test_an_undeclared_disk_waits_for_a_persons_word_before_anything_is_removed(stage: Stage) -> None:
    stage.further_disks = ["stray1"]
    stage.netbox.ask(an_intent(RETIRE))
    stage.walk(turns=20)
    assert stage.run().state_name == "withdrawing"
    assert "stray1" in stage.netbox.shown()["message"]
    assert "vouch" in stage.netbox.shown()["findings"][0]["next_step"]
    assert M in stage.tinkerbell.hardware
    assert stage.reservations.removed == [], "the address is not given away while the retirement is unfinished"
    assert M in stage.authority.revoked, "the credentials are withdrawn all the same"

    say(stage, "stray1")

    assert stage.walk().outcome == "succeeded"
    states = {disk["name"]: disk["state"] for disk in retirement(stage).payload["disks"]}
    assert states["stray1"] == "not erased: dora gave their word (looked at it)"
    assert states["disk7"].startswith("erased")


def test_a_word_that_never_comes_fails_the_retirement_and_keeps_the_credentials_withdrawn(stage: Stage) -> None:
    stage.further_disks = ["stray1"]
    stage.netbox.ask(an_intent(RETIRE))
    stage.walk(turns=20)

    for _ in range(20):
        stage.clock.pass_by(hours=12)
        stage.turn()

    assert (stage.run().outcome, stage.run().code) == ("failed", "disk-word")
    assert M in stage.authority.revoked
    assert M in stage.tinkerbell.hardware


def test_a_word_is_taken_only_where_it_is_wanted(stage: Stage) -> None:
    with pytest.raises(WishRefusedError, match="no retirement"):
        say(stage, "stray1")
    stage.further_disks = ["stray1"]
    stage.netbox.ask(an_intent(RETIRE))
    stage.walk(turns=20)

    with pytest.raises(WishRefusedError, match="undeclared disks of this machine: stray1"):
        say(stage, "other")
    with pytest.raises(WishRefusedError, match="has a BMC"):
        say(stage, POWER_OFF)


def test_a_machine_without_a_bmc_is_retired_when_a_person_says_that_it_is_off(stage: Stage) -> None:
    stage.netbox.change(bmc_address="", bmc_secret="")
    stage.netbox.ask(an_intent(RETIRE))
    stage.walk(turns=20)
    assert stage.run().state_name == "withdrawing"
    assert "no BMC" in stage.run().message

    say(stage, POWER_OFF)

    assert stage.walk().outcome == "succeeded"
    told = {step["step"]: step["message"] for step in retirement(stage).payload["steps"]}
    assert told["power-off"] == "A person gave their word that the machine is off."


def test_a_lost_machine_is_retired_without_a_word_and_its_record_says_what_was_not_erased(stage: Stage) -> None:
    stage.further_disks = ["stray1"]
    active(stage)
    stage.bmc.power[M] = PowerState.OFF
    stage.netbox.ask(an_intent(RETIRE))
    stage.turn()
    with stage.sessions.begin() as session:
        declare_lost(session, M, "bea", "stolen", stage.clock.now())

    assert stage.walk().outcome == "succeeded"

    payload = retirement(stage).payload
    assert payload["declared_lost_by"] == "bea"
    assert {disk["state"] for disk in payload["disks"]} == {"not erased: bea declared the machine lost"}
    assert {disk["name"] for disk in payload["disks"]} == {"disk7", "stray1"}
    assert "certificates" in {step["step"] for step in payload["steps"]}


def test_a_wipe_names_the_disks_that_it_left(stage: Stage) -> None:
    stage.further_disks = ["stray1"]
    stage.netbox.ask(an_intent(IntentKind.WIPE))

    assert stage.walk().outcome == "succeeded"

    assert [item["code"] for item in stage.netbox.shown()["findings"]] == ["disks-left"]


def test_a_record_says_where_the_boot_was_not_judged(stage: Stage) -> None:
    from fleetd.core.findings.checks import BootedOtherThanRedeemed

    stage.classes.classes["lab-alpine"] = replace(a_class(), two_person=False)
    stage.noted[M] = (BootedOtherThanRedeemed((7,)),)
    stage.netbox.ask(an_intent(IntentKind.WIPE))

    stage.walk()

    (record,) = records(stage)
    assert record.payload["witness"]["boot_judged"] is False
    assert record.payload["witness"]["findings"] == [BootedOtherThanRedeemed.code]
