"""The times that decisions go by and that no class sets; what a class sets is `fleetd.core.classes.Deadlines`."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Timing:
    """Pauses and waits of the service."""

    look: timedelta = timedelta(seconds=5)
    """How soon a state is looked at again when nothing wakes it."""
    slow_look: timedelta = timedelta(minutes=1)
    """The same where only a person or a machine's own call moves things on."""
    job: timedelta = timedelta(minutes=3)
    """A power job without an end counts as failed after this."""
    job_pause: timedelta = timedelta(seconds=30)
    """Pause after the first failed power job; it doubles each time."""
    refusal_pauses: tuple[timedelta, ...] = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))
    """Pauses after each refused enrollment; one refusal more ends the run."""
    silence: timedelta = timedelta(minutes=2)
    """After this without a word of the machine its power state is asked for."""
    evidence: timedelta = timedelta(seconds=60)
    """How long evidence may come after the Workflow's success."""
    tidy: timedelta = timedelta(hours=24)
    """How long an ended run may take to clear what it left outside."""
    power_off_after_failure: timedelta = timedelta(minutes=30)
    leave: timedelta = timedelta(minutes=5)
    """How long after it was given a leave may be used."""
    check_interval: timedelta = timedelta(hours=1)
    late_after: float = 2.5
    """Intervals without a check until a machine is late."""
    lost_after: timedelta = timedelta(hours=24)
    clock_settles: timedelta = timedelta(minutes=5)
    """After the clock was stepped, nothing destructive starts for so long."""
    approval_pause: timedelta = timedelta(seconds=3)
    """The first pause of a machine whose endorsement key waits for a person, and the shortest."""
    longest_approval_pause: timedelta = timedelta(minutes=5)
    approval_pause_share: float = 0.025
    """The pause of such a machine, as a share of how long its key has waited already."""

    @property
    def check(self) -> timedelta:
        """How long a check may take to come."""
        return self.check_interval * self.late_after

    def pause_for_approval(self, waited: timedelta, spread: float = 0.0) -> timedelta:
        """Return how long a machine sleeps that has waited for a person so far.

        `spread` in [0, 1) lengthens the pause by up to a quarter, so that a rack switched on at once does not ask at
        once. A person who stands beside the machine sees it go on within seconds; a shelf of machines that nobody
        looks after asks every five minutes.
        """
        grown = max(self.approval_pause, waited * self.approval_pause_share) * (1 + spread / 4)
        return max(self.approval_pause, min(self.longest_approval_pause, grown))

    def pause_after(self, attempt: int) -> timedelta:
        """Return the pause after the attempt-th failed power job."""
        return self.job_pause * (1 << min(attempt - 1, 6))


MOST_BOOTS = 3
"""How often a run switches a silent machine on again."""
