"""What a soak is made of: fleetd twice, faults drawn from a seed, and owners who let machines live their lives."""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fleet_lab.bringup import Lab
from fleet_lab.demo.owner import Owner
from fleet_lab.demo.walk import value_of
from fleet_lab.fleetd_service import PROCESSES
from fleet_lab.machine.forkserver import ForkServer, Job
from fleet_lab.places import LabError
from tests.e2e import stepped
from tests.e2e.life import Life

_PAUSE = 1.0
"""Seconds between looks at all machines."""
_NO_NEWS = 600.0
"""Seconds without news of any machine after which the soak is given up."""
_NEWS = ("intent_id", "phase_since", "message", "percent", "last_check")
_LOOKED_AT = ("id", "phase", "check_result", *_NEWS)
"""All that is asked of NetBox at each look at all machines: whole records would take most of its time."""
_STEP = (75.0, 110.0)
"""Seconds of a step: more than is slewed, and soon caught up with."""


class Doubled:
    """Two of every process of fleetd, with a clock that can be stepped."""

    def __init__(self, lab: Lab) -> None:
        folder = lab.places.state / "doubled"
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._offset = folder / "offset"
        self._environment = {**os.environ, **lab.fleetd.environment, stepped.OFFSET: str(self._offset)}
        self._server = ForkServer("tests.e2e.stepped:run", folder / "forks.log")
        self.ahead = 0.0
        self.step(0.0)
        self._jobs: dict[tuple[str, int], Job] = {}
        for which in self.all:
            self._start(which)

    @property
    def all(self) -> list[tuple[str, int]]:
        """Every process: what it does, and which of the two it is."""
        return [(name, number) for name in PROCESSES for number in (1, 2)]

    def step(self, ahead: float) -> None:
        """Set its clock so many seconds ahead of the host's."""
        stepped.step(self._offset, ahead)
        self.ahead = ahead

    def command(self, *arguments: str) -> None:
        """Run a command of fleetd to its end, under the same clock."""
        job = self._server.start(arguments, self._environment, self._folder / "commands.log")
        status = job.wait(120)
        assert status == 0, (arguments, status, (self._folder / "commands.log").read_text()[-2000:])

    def restart(self, which: tuple[str, int], pause: Callable[[], object], *, kill: bool) -> None:
        """End one process, by SIGKILL or in peace, and start it again after the pause."""
        job = self._jobs[which]
        job.kill() if kill else job.ask_to_end()
        if job.wait(60) is None:
            job.kill()
            assert job.wait(60) is not None, f"fleetd {which} does not die of SIGKILL"
        pause()
        self._start(which)

    def start_what_ended(self) -> list[tuple[str, int]]:
        """Start again what ended by itself, as a service manager does, and name it."""
        ended = [which for which, job in self._jobs.items() if job.wait(0) is not None]
        for which in ended:
            self._start(which)
        return ended

    def close(self) -> None:
        """End all of it."""
        self._server.close()

    def _start(self, which: tuple[str, int]) -> None:
        name, number = which
        self._jobs[which] = self._server.start([name], self._environment, self._folder / f"{name}-{number}.log")


class Faults:
    """One fault after the other, until `close`."""

    def __init__(self, lab: Lab, fleetd: Doubled, rng: random.Random) -> None:
        self._lab, self._fleetd, self._rng = lab, fleetd, rng
        self._stop = threading.Event()
        self.done: Counter[str] = Counter()
        tinkerbell = lab.tinkerbell.child
        assert tinkerbell is not None, "a real Tinkerbell is not the test's to stop"
        self._services = {
            "PostgreSQL": (lab.postgres.stop, lab.postgres.child.start),
            "PostgreSQL, as by a power cut": (lab.postgres.kill, lab.postgres.child.start),
            "Valkey": (lab.valkey.stop, lab.valkey.child.start),
            "NetBox": (lab.netbox.stop, lab.netbox.start),
            "Tinkerbell": (tinkerbell.stop, tinkerbell.start),
        }
        self._waiting: Iterator[str] = iter(())
        self._working: Future[None] = ThreadPoolExecutor(1, "faults").submit(self._go_on)

    @property
    def trouble(self) -> BaseException | None:
        """What ended the faults before their time."""
        return self._working.exception() if self._working.done() else None

    def close(self) -> None:
        """Begin no other fault, and leave everything running and the clock right. Raises what went wrong."""
        self._stop.set()
        self._working.result()
        if self._fleetd.ahead:
            self._step()

    def _go_on(self) -> None:
        while not self._stop.wait(self._rng.uniform(1, 5)):
            self.done["processes that ended by themselves"] += len(self._fleetd.start_what_ended())
            if self._rng.random() < 0.65:
                self._end_one()
            else:
                self._one_outside()
            # A host that is busy starts things slowly: what is always ended before it is up shows nothing.
            while not self._lab.fleetd.answers() and not self._stop.wait(0.5):
                self._fleetd.start_what_ended()

    def _end_one(self) -> None:
        which, kill = self._rng.choice(self._fleetd.all), self._rng.random() < 0.8
        away = self._rng.choice([0.0, 0.0, 4.0])
        self._fleetd.restart(which, lambda: self._stop.wait(away), kill=kill)
        self.done["kills" if kill else "restarts"] += 1

    @property
    def all_came(self) -> bool:
        """Tell whether everything outside has had its turn once."""
        wanted = {"clock set forth", "clock set back", *(f"outages of {name}" for name in self._services)}
        return wanted <= self.done.keys()

    def _one_outside(self) -> None:
        """Let everything outside have its turn, in an order of chance, before something has its second."""
        name = next(self._waiting, None)
        if name is None:
            names = [*self._services, "clock", "clock"]
            self._rng.shuffle(names)
            self._waiting = iter(names)
            name = next(self._waiting)
        if name == "clock":
            self._step()
            return
        stop, start = self._services[name]
        stop()
        self._stop.wait(self._rng.uniform(0.5, 3))
        start()
        self.done[f"outages of {name}"] += 1

    def _step(self) -> None:
        """Set the clock forth, or back to what it was; a person then says that it is right."""
        back = bool(self._fleetd.ahead)
        self._fleetd.step(0.0 if back else self._rng.uniform(*_STEP))
        if back:
            self._accept()
        self.done["clock set back" if back else "clock set forth"] += 1

    def _accept(self) -> None:
        self._fleetd.command("clock", "accept", "--reason", "the time server was wrong for a while")


@dataclass
class Wish:
    """What was asked of a machine; `run` is empty until the answer, or what NetBox shows, told it."""

    intent: str
    run: str = ""


@dataclass
class Lived:
    """One machine under one owner: what was asked of it so far, and what is open."""

    life: Life
    by: str
    ended: list[Wish] = field(default_factory=list)
    open: Wish | None = None
    word: str = ""
    """What NetBox said last to a wish that it did not take."""

    @property
    def owner(self) -> Owner:
        """Who asks."""
        return self.life.lab.owner

    @property
    def erasures(self) -> int:
        """How often it was asked to be erased."""
        return sum(wish.intent in {"provision", "wipe", "retire"} for wish in self.ended)

    def may_wish(self, shown: Any) -> bool:
        """Tell whether there is something to wish for now."""
        if self.open or shown["intent_id"] or (self.ended and self.ended[-1].intent == "retire"):
            return False
        return value_of(shown["phase"]) != "active" or value_of(shown["check_result"]) == "ok"

    def ask(self, intent: str) -> None:
        """Ask; where no answer comes it is not known whether the wish was heard."""
        self.open = Wish(intent)
        with suppress(OSError):
            try:
                self.open.run = self._asked(intent)
            except LabError as error:
                self.word = str(error)

    def look(self, shown: Any) -> None:
        """Take note of the machine as NetBox shows it: a wish that was heard after all, or its end."""
        wish = self.open
        if wish is None:
            return
        now = str(shown["intent_id"] or "")
        if not wish.run:
            wish.run = now or self._unknown_run()
            if not wish.run:
                self.ask(wish.intent)
        elif now != wish.run:
            self.ended.append(wish)
            self.open = None

    def _asked(self, intent: str) -> str:
        if intent == "retire":
            self.owner.patch(f"dcim/devices/{self.life.shown['device']['id']}/", {"status": "decommissioning"})
            return str(self.life.shown["intent_id"] or "")
        if intent == "attest with a reboot":
            return self.life.wish("attest", reboot=True)
        return self.life.wish(intent)

    def _unknown_run(self) -> str:
        known = {wish.run for wish in self.ended}
        return next((run["run_id"] for run in self.life.runs() if run["run_id"] not in known), "")


_SHARES = {
    "active": {"attest": 30, "attest with a reboot": 20, "wipe": 30, "provision": 10, "retire": 10},
    "attested": {"provision": 1},
    "wiped": {"provision": 8, "attest": 2},
    "declared": {"provision": 9, "attest": 1},
}
"""How often what is asked of a machine in a phase, beside the other wishes that could be."""


class Owners:
    """Everybody who has machines; one thread does what they do, so that NetBox has time for fleetd."""

    def __init__(self, lab: Lab, machines: list[Lived], at_once: int) -> None:
        self._lab, self.machines, self._at_once = lab, machines, at_once
        self._asked: Counter[tuple[str, str]] = Counter()
        self._news: Any = None
        self._heard = time.monotonic()
        self._checked: dict[int, Any] = {}
        self.checks = 0
        """Boot checks that NetBox showed."""

    def live(self, until: Callable[[], bool], *, wish: bool) -> None:
        """Look at all machines again and again until it is true; new wishes are made where `wish` says so."""
        while not until():
            with suppress(OSError, LabError):
                self._look(wish=wish)
            assert time.monotonic() < self._heard + _NO_NEWS, self._silence()
            time.sleep(_PAUSE)

    @property
    def open(self) -> list[Lived]:
        """Whose wish has not come to its end."""
        return [each for each in self.machines if each.open]

    def shown(self) -> dict[int, Any]:
        """Return what a look needs of all machines as NetBox shows them, by id."""
        every = self._lab.owner.get("plugins/fleet/machines/", limit=1000, fields=",".join(_LOOKED_AT))["results"]
        return {each["id"]: each for each in every}

    def _look(self, *, wish: bool) -> None:
        shown = self.shown()
        for each in self.machines:
            self._nothing_bad(shown[each.life.machine])
        news = {machine: [now[key] for key in _NEWS] for machine, now in shown.items()}
        self.checks += sum(now["last_check"] != self._checked.get(machine) for machine, now in shown.items())
        self._checked = {machine: now["last_check"] for machine, now in shown.items()}
        if news != self._news:
            self._news, self._heard = news, time.monotonic()
        self._approve()
        for each in self.open:
            each.look(shown[each.life.machine])
        if wish:
            self._wish(shown)

    def _nothing_bad(self, shown: Any) -> None:
        phase, check = value_of(shown["phase"]), value_of(shown["check_result"])
        if phase in {"failed", "quarantined"} or check in {"failed", "drifted"}:
            raise AssertionError(everything_of(self._lab, shown))

    def _approve(self) -> None:
        owners = {each.life.machine: each.owner for each in self.machines}
        for key in self._lab.owner.get("plugins/fleet/endorsement-keys/", status="pending", limit=1000)["results"]:
            owners[key["machine"]["id"]].approve(key["id"], key["machine"]["id"])

    def _wish(self, shown: dict[int, Any]) -> None:
        """Let so many machines wish at once as may be: what was never asked comes first, else they take turns."""
        phases = {each.life.machine: str(value_of(shown[each.life.machine]["phase"])) for each in self.machines}
        may = [each for each in self.machines if each.may_wish(shown[each.life.machine])]
        may.sort(key=lambda each: (self._all_asked_of(phases[each.life.machine]), len(each.ended)))
        for each in may[: max(0, self._at_once - len(self.open))]:
            each.ask(self._next(phases[each.life.machine]))

    def _all_asked_of(self, phase: str) -> bool:
        return all(self._asked[phase, kind] for kind in _SHARES[phase])

    @property
    def all_was_asked(self) -> bool:
        """Tell whether everything that can be asked was asked once, and every machine has wished."""
        return all(map(self._all_asked_of, _SHARES)) and all(each.ended for each in self.machines)

    def _next(self, phase: str) -> str:
        """Choose what was asked least for its share."""
        shares = _SHARES[phase]
        chosen = min(shares, key=lambda kind: self._asked[phase, kind] / shares[kind])
        self._asked[phase, chosen] += 1
        return chosen

    def _silence(self) -> str:
        silent = [(each.life.spec.name, each.open, each.word, each.life.shown) for each in self.open]
        return f"no news for {_NO_NEWS:.0f} s: {json.dumps(silent, default=vars, indent=1)}"


_ACCOUNTS = """
from users.models import Token, User

for name in {names!r}:
    user = User.objects.create(username=name, is_superuser=True)
    token = Token(user=user)
    token.save()
    print("OWNER", name, token.get_auth_header_prefix() + token.token)
"""


def owners_of(lab: Lab, names: list[str]) -> dict[str, Owner]:
    """Make accounts in NetBox and return who has them."""
    printed = lab.netbox.shell(_ACCOUNTS.format(names=names))
    told = [line.split() for line in printed.splitlines() if line.startswith("OWNER ")]
    return {name: Owner.of(lab.netbox.url, token) for _, name, *_, token in told}


def under(owner: Owner, life: Life) -> Life:
    """Return the same machine in another owner's hands."""
    return replace(life, lab=replace(life.lab, owner=owner))


def everything_of(lab: Lab, shown: Any) -> str:
    """Return all that NetBox and fleetd know of a machine, for people who look for what went wrong."""
    asked = {
        "certificates": "number, kind, left(serial, 8), left(key_hash, 8), taken_at, installed_at, revoked_at, reason "
        "FROM certificate WHERE machine_id = {} ORDER BY number",
        "runs": "id, kind, outcome, opened_at, ended_at FROM runs WHERE machine_id = {} ORDER BY opened_at",
        "check": "last_at, last_ok, result, clock, clock_at, reset_count, findings FROM check_state WHERE machine_id = {}",
        "clock": "name, value, at FROM marks WHERE name LIKE 'clock-%'",
    }
    told = {name: lab.postgres.sql(f"SELECT {what.format(shown['id'])}", "fleetd") for name, what in asked.items()}
    return "\n".join((json.dumps(shown, indent=1), *(f"{name}:\n{rows}" for name, rows in told.items())))
