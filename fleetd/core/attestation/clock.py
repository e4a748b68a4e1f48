"""What the TPM's counters and clock say between two quotes.

TPM 2.0 Part 1, "Timing Components": resetCount grows with each TPM reset, restartCount with each restart or resume, the
clock only while the TPM has power. TPM2_Clear sets all three to zero. An unclean loss of power sets the clock back and
comes with a resetCount one higher.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fleetd.core.attestation.attest import TpmClock
from fleetd.core.findings.boot import ClockOffPace, ClockWentBack, TpmCleared
from fleetd.core.findings.finding import Finding
from fleetd.core.findings.quote import ClockNotSafe

PACE_TOLERANCE: Final = 0.10
PACE_SLACK_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class EarlierClock:
    """The counters of the last good quote, and how many seconds ago the server took them by its own clock."""

    clock: TpmClock
    seconds_ago: float | None
    """None where the server's clock was set since: the pace of the TPM's cannot be told from it."""


def judge_clock(earlier: EarlierClock | None, now: TpmClock) -> tuple[Finding, ...]:
    """Hold the counters against the earlier ones: reset, restart and clock, in this order, must not go back.

    Within one boot the TPM's clock must keep pace with the server's, give or take 10 % and 60 s: a quote that was made
    before tampering and sent later is out of pace. A cleared TPM is told apart, as nobody attacked anything.
    """
    return tuple(_judged(earlier, now))


def _judged(earlier: EarlierClock | None, now: TpmClock) -> Iterator[Finding]:
    if not now.safe:
        yield ClockNotSafe()
    if earlier is None:
        return
    then = earlier.clock
    if now.reset_count < then.reset_count or (_fresh(now) and now.clock < then.clock):
        yield TpmCleared(then.reset_count, now.reset_count)
    elif now.reset_count > then.reset_count:
        return
    elif now.restart_count < then.restart_count:
        yield ClockWentBack("restart counter")
    elif now.restart_count == then.restart_count:
        yield from _pace(then, now, earlier.seconds_ago)
    elif now.clock < then.clock:
        yield ClockWentBack("clock")


def _fresh(clock: TpmClock) -> bool:
    return clock.reset_count == 0 and clock.restart_count == 0


def _pace(then: TpmClock, now: TpmClock, seconds: float | None) -> Iterator[Finding]:
    if now.clock < then.clock:
        yield ClockWentBack("clock")
        return
    if seconds is None:
        return
    elapsed = seconds * 1000
    if abs((now.clock - then.clock) - elapsed) > PACE_TOLERANCE * elapsed + PACE_SLACK_MS:
        yield ClockOffPace(tpm_seconds=(now.clock - then.clock) // 1000, server_seconds=round(seconds))
