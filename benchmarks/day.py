"""Two days of a fleet at compressed time: each machine checked every hour by fleetd's own code, with a clock that is set forth.

500 machines with keys in memory; PostgreSQL keeps fsync on. Between the hours the sweep looks for what is due, queued reports
go as NetBox takes them, and used tokens that have expired are forgotten, as the service does by itself. What is printed is
the size of the database per machine, indexes and what VACUUM cannot give back included: what the first day adds, which is mostly the
answers that are kept for a machine that asks again, and what each day after it adds; and the slowest sweep.
"""

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pydantic import TypeAdapter
from sqlalchemy import delete

from benchmarks.exchange import CLASS, clock_of, install
from benchmarks.fleet import size_of
from benchmarks.load import dumped
from benchmarks.plain_fleetd import plain_fleetd
from benchmarks.verdict import at_most
from fleetd.app import challenge, check, messages
from fleetd.app.exchange import Exchange
from fleetd.app.sweep import sweep
from fleetd.ca.signer import service_key
from fleetd.ca.tree import Tree
from fleetd.core.certificates.profile import Tier
from fleetd.store.engine import session_factory
from fleetd.store.outbox import ReportRow
from fleetd.store.tokens import forget_expired
from tests.clocks import SetClock
from tests.integration.http.conftest import a_class, an_exchange
from tests.integration.http.machines import PretendEk, PretendMachine
from tests.unit.attestation.evidence import ecc_key, ldevid_key
from tests.worlds import Stage

MACHINES, HOURS, DAYS = 500, 24, 2
_ASK: TypeAdapter[messages.ChallengeAsk] = TypeAdapter(messages.ChallengeAsk)


@dataclass(frozen=True, slots=True)
class Inside:
    """fleetd's own code as a client sees it, without HTTP."""

    exchange: Exchange

    def post(self, path: str, json: Any) -> "Told":
        """Ask for a challenge of a check, or make the check."""
        raw = dumped(json)
        if path == "/v1/challenges":
            return Told(201, {"jws": challenge.ask(self.exchange, _ASK.validate_json(raw), "127.0.0.1")})
        answer = check.check(self.exchange, messages.Check.model_validate_json(raw), raw, "127.0.0.1")
        return Told(answer.status, loads(answer.body))


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    status_code: int
    body: Any
    text: str = ""

    def json(self) -> Any:
        """Return the answer's object."""
        return self.body


def main() -> None:
    """Print one line a measurement."""
    with ExitStack() as stack:
        places, engine = plain_fleetd("day", stack)
        clock = SetClock()
        classes = {"classes": [a_class(CLASS, "alpine-image")]}
        exchange = an_exchange(session_factory(engine), clock, places.state, classes)
        stage = Stage(exchange.sessions)
        key = service_key(places.state / "ca" / "service.key").public_key()
        shared, lak, ldevid = PretendEk(), ecc_key(), ldevid_key()
        fleet = [
            PretendMachine(Inside(exchange), key, number, shared, lak=lak, ldevid=ldevid)
            for number in range(1, MACHINES + 1)
        ]
        issuer = Tree(places.state / "ca").issuer(Tier.DEVID).fingerprint
        with exchange.sessions.begin() as session:
            serials = [install(session, machine, issuer, clock.now()) for machine in fleet]
        following = [machine.check_challenge() for machine in fleet]
        sizes, slowest = [], 0.0
        for _ in range(HOURS * DAYS + 1):
            for n, machine in enumerate(fleet):
                machine.clock = clock_of(clock.now())
                told = machine.check(following[n], serials[n])
                if told["result"] != "ok":
                    raise SystemExit(f"machine {machine.machine}: {told}")
                following[n] = told["next"]
            stage.clock.at = clock.now()
            begun = time.perf_counter()
            sweep(stage.world())
            slowest = max(slowest, time.perf_counter() - begun)
            with exchange.sessions.begin() as session:
                session.execute(delete(ReportRow))
                forget_expired(session, clock.now())
            sizes.append(size_of(engine))
            clock.pass_by(hours=1)
        first, following_days = (sizes[HOURS] - sizes[0]) / MACHINES, (sizes[-1] - sizes[HOURS]) / MACHINES / (DAYS - 1)
        at_most("database-first-day-per-machine", first / 1024, "KiB", 16)
        at_most("database-growth-per-machine-day", following_days / 1024, "KiB", 1)
        at_most("sweep-of-a-day-500", slowest, "s", 1)


if __name__ == "__main__":
    main()
