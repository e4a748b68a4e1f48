"""What a machine is while no run changes it, and how that reads."""

from datetime import datetime

from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import Ended, Ending, Outcome, PoweringDown
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import IntentKind, Phase


def next_check_state(state: str, since: datetime, now: datetime, timing: Timing, *, offline: bool) -> str:
    """Return late or lost when checks stay away, `since` being the last good one or the beginning.

    A machine whose Device is offline is neither. Only a check leads back.
    """
    if offline or state == "none":
        return state
    if now >= since + max(timing.lost_after, timing.check):
        return "lost"
    if now >= since + timing.check and state not in {"lost", "drifted", "failed"}:
        return "late"
    return state


def next_change(state: str, since: datetime, timing: Timing) -> datetime | None:
    """Return when the state of the checks changes next if none comes."""
    if state == "lost":
        return None
    if state in {"awaited", "ok"}:
        return since + timing.check
    return since + max(timing.lost_after, timing.check)


def phase_of(standing: str, run: Run | None, *, quarantined: bool) -> Phase:
    """Return the phase that an owner sees."""
    if run is not None and not run.over:
        if isinstance(run.state, PoweringDown):
            return {IntentKind.ATTEST: Phase.ATTESTED, IntentKind.WIPE: Phase.ERASING}.get(run.kind, Phase.RETIRING)
        return run.state.phase
    if quarantined:
        return Phase.QUARANTINED
    if run is not None and _failed(run) and standing != "active":
        return Phase.FAILED
    if run is not None and _failed(run) and run.kind.erases:
        return Phase.FAILED
    return Phase(standing)


def _failed(run: Run) -> bool:
    return isinstance(run.state, Ending | Ended) and run.state.outcome is Outcome.FAILED
