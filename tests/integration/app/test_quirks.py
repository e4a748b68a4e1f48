"""BMCs that depart from what Redfish promises, told to fleetd as data of the class."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from fleetd.core.classes import PowerQuirks
from fleetd.core.names import MachineId, RunId
from fleetd.core.outside import PowerState, PowerStep
from tests.integration.app.test_failures import until
from tests.worlds import FakeBmc, SetClock, Stage, a_class, an_intent

M = MachineId(7)


@dataclass
class LazyBmc(FakeBmc):
    """Switches off some seconds after it was told, and takes no boot device before."""

    clock: SetClock = field(default_factory=SetClock)
    takes: timedelta = timedelta(seconds=20)
    off_at: datetime | None = None

    def start(self, run: RunId, machine: MachineId, name: str, steps: tuple[PowerStep, ...]) -> None:
        self.state(machine)
        if (run, name) not in self.jobs and PowerStep.OFF in steps and self.power.get(machine) is PowerState.ON:
            self.off_at = self.clock.now() + self.takes
            steps = () if steps == (PowerStep.OFF,) else tuple(s for s in steps if s is PowerStep.ON)
        super().start(run, machine, name, steps)

    def state(self, machine: MachineId) -> PowerState:
        if self.off_at is not None and self.clock.now() >= self.off_at:
            self.power[machine], self.off_at = PowerState.OFF, None
        return super().state(machine)


def with_quirks(stage: Stage, **quirks: object) -> None:
    stage.classes.classes["lab-alpine"] = a_class(quirks=PowerQuirks(**quirks))


def test_a_bmc_that_takes_a_boot_device_only_while_off_is_asked_for_off_first(stage: Stage) -> None:
    stage.bmc = LazyBmc(clock=stage.clock, power={M: PowerState.ON}, boot={M: PowerStep.BOOT_DISK})
    with_quirks(stage, off_before_boot_device=True)
    intent = an_intent()
    stage.netbox.ask(intent)
    until(stage, "netbooting", dark=True)

    assert stage.bmc.booted == [(M, PowerStep.BOOT_NETWORK)]
    assert [name for run, name in stage.bmc.jobs if run == intent.id] == ["netboot-1-off", "netboot-1"]

    assert stage.walk().outcome == "succeeded"
    assert stage.bmc.booted[-1] == (M, PowerStep.BOOT_DISK)


def test_the_same_bmc_without_the_quirk_never_boots_from_the_network(stage: Stage) -> None:
    stage.bmc = LazyBmc(clock=stage.clock, power={M: PowerState.ON}, boot={M: PowerStep.BOOT_DISK})
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    assert stage.bmc.booted == [], "it was still on when it was told to switch on"


def test_a_bmc_that_never_says_off_ends_the_wait_with_the_reason_power(stage: Stage) -> None:
    stage.bmc = LazyBmc(clock=stage.clock, power={M: PowerState.ON}, takes=timedelta(days=1))
    with_quirks(stage, off_before_boot_device=True)
    stage.netbox.ask(an_intent())

    assert stage.walk(turns=60, seconds=30).code == "power"


def test_a_silent_machine_whose_bmc_forgets_the_boot_device_is_started_again_a_few_times(stage: Stage) -> None:
    with_quirks(stage, boot_device_lost_on_reset=True)
    stage.netbox.ask(an_intent())
    for _ in range(40):
        stage.turn()
        stage.clock.pass_by(minutes=1)

    assert [name for _, name in stage.bmc.jobs] == ["netboot-1", "netboot-2", "netboot-3"]
    assert [boot for _, boot in stage.bmc.booted] == [PowerStep.BOOT_NETWORK] * 3
    assert stage.run().code == "netboot"


def test_a_silent_machine_of_another_bmc_is_left_on_until_the_deadline(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    for _ in range(20):
        stage.turn()
        stage.clock.pass_by(minutes=1)

    assert len(stage.bmc.booted) == 1
    assert stage.run().code == "netboot"


@pytest.mark.parametrize(("delay", "boots"), [(0, 2), (300, 1)])
def test_an_old_power_state_of_a_slow_bmc_is_not_believed_at_once(stage: Stage, delay: int, boots: int) -> None:
    with_quirks(stage, report_delay=timedelta(seconds=delay))
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    stage.bmc.power[M] = PowerState.OFF  # what the BMC goes on telling of a machine that is on

    for _ in range(4):
        stage.clock.pass_by(seconds=60)
        stage.turn()

    assert len(stage.bmc.booted) == boots
