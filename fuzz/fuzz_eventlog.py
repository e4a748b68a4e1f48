"""Event logs: framing, replay, facts, views and judgement of any bytes."""

from fleetd.core.attestation.banks import reset_value
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import assume_log, judge_log, replay_all
from fleetd.core.attestation.eventlog.views import view_event
from fleetd.core.attestation.judgement import judge_check, judge_install
from fleetd.core.attestation.policy import AllowRule, CheckPolicy, InstallBoot, InstallPolicy, SecureBoot
from fleetd.core.attestation.structures import MalformedStructure
from fuzz import driver
from tests.unit.attestation.evidence import a_boot, certificate_like, legacy_event

RULES = (AllowRule(digest=bytes(32)), AllowRule(authority=bytes(32)))
INSTALL = InstallPolicy(InstallBoot.JUDGED, SecureBoot.REQUIRED, RULES)
CHECK = CheckPolicy(secure_boot=SecureBoot.REQUIRED, allow=RULES)


def judge(data: bytes) -> None:
    """Judge the bytes as a log in every way there is."""
    try:
        log = parse_log(data)
    except MalformedStructure:
        return
    for bank, values in replay_all(log).items():
        quoted = {pcr: reset_value(bank, pcr) for pcr in range(24)} | values
        for judged in (assume_log(log, bank), judge_log(log, bank, quoted)):
            facts = read_facts(judged)
            judge_install(judged, facts, INSTALL)
            judge_check(judged, facts, CHECK)
        column = log.column(bank)
        for event in log.events:
            view_event(event, log.data(event), None if column is None else event.digests[column], bank)


if __name__ == "__main__":
    made = [a_boot(certificate=certificate_like(b"x")).bytes(), legacy_event(0, 1, b"x")]
    driver.run(judge, [*made, *driver.recorded("eventlogs", ".bin")])
