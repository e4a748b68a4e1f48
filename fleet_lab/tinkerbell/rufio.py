"""Rufio: keeps the power state of Machines, and turns Jobs into Tasks and Tasks into Redfish calls."""

import asyncio
import base64
import copy
from collections.abc import Awaitable, Callable

from fleet_lab.tinkerbell import redfish_client
from fleet_lab.tinkerbell.kinds import JOB, MACHINE, SECRET, TASK, Kind
from fleet_lab.tinkerbell.redfish_client import BmcError, ConnectError, Connection, Login
from fleet_lab.tinkerbell.store import Change, Event, Json, Store, now_text

POLL_EVERY = 1800.0
CHECK_EVERY = 3.0
GIVE_UP_AFTER = 600.0
"""Seconds until a power action that shows no effect fails its Task."""
FIRST_PAUSE = 0.005
LONGEST_PAUSE = 1000.0

Reconcile = Callable[[Json], Awaitable[float | None]]
"""Bring one object a step further; returns seconds until it must be looked at again, or None."""


class _MissingError(Exception):
    """Something that must exist does not: try again after a growing pause."""


class Rufio:
    """Reconcile the three kinds, each with its own few workers."""

    def __init__(self, store: Store, workers: int = 1, check_every: float = CHECK_EVERY) -> None:
        self._store = store
        self._workers = workers
        self._check_every = check_every

    async def run(self) -> None:
        """Work until cancelled."""
        loops = [
            _Loop(self._store, MACHINE, self._machine, self._workers),
            _Loop(self._store, JOB, self._job, self._workers, also=TASK),
            _Loop(self._store, TASK, self._task, self._workers),
        ]
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                for _ in range(self._workers):
                    group.create_task(loop.work())

    async def _machine(self, item: Json) -> float | None:
        login = self._login(item["spec"]["connection"])
        status = copy.deepcopy(item.get("status", {}))
        try:
            state = await asyncio.to_thread(_read_power, login)
            status["powerState"] = state if state in {"on", "off"} else "unknown"
            _contactable(status, None)
        except BmcError as error:
            status["powerState"] = "unknown"
            _contactable(status, str(error))
        self._write(MACHINE, item, status)
        return POLL_EVERY

    async def _job(self, item: Json) -> float | None:
        metadata, spec = item["metadata"], item["spec"]
        status = copy.deepcopy(item.get("status", {}))
        if _has(status, "Completed") or _has(status, "Failed"):
            return None
        reference = spec["machineRef"]
        machine = self._store.get(MACHINE, reference["namespace"], reference["name"])
        if machine is None:
            raise _MissingError
        for number, action in enumerate(spec["tasks"]):
            name = f"{metadata['name']}-task-{number}"
            task = self._store.get(TASK, metadata["namespace"], name)
            if task is None:
                self._store.add(TASK, _new_task(item, name, machine["spec"]["connection"], action))
                break
            if _has(task.get("status", {}), "Failed"):
                words = f"task {metadata['namespace']}/{name} failed"
                status.setdefault("conditions", []).append({"type": "Failed", "status": "True", "message": words})
                break
            if not _has(task.get("status", {}), "Completed"):
                break
        else:
            status["completionTime"] = now_text()
            status.setdefault("conditions", []).append({"type": "Completed", "status": "True"})
        if not _has(status, "Running"):
            status["conditions"] = [{"type": "Running", "status": "True"}, *status.get("conditions", [])]
        status.setdefault("startTime", now_text())
        self._write(JOB, item, status)
        return None

    async def _task(self, item: Json) -> float | None:
        status = copy.deepcopy(item.get("status", {}))
        if _has(status, "Completed") or _has(status, "Failed"):
            return None
        login = self._login(item["spec"]["connection"])
        action = item["spec"]["task"]
        try:
            if "startTime" not in status:
                await asyncio.to_thread(_perform, login, action)
                self._write(TASK, item, {**status, "startTime": now_text()})
                return None
            done = await asyncio.to_thread(_is_done, login, action)
        except BmcError as error:
            prefix = "Failed to connect to BMC: " if isinstance(error, ConnectError) else ""
            if not prefix:
                status.setdefault("startTime", now_text())
            failed = {"type": "Failed", "status": "True", "message": f"{prefix}{error}"}
            self._write(TASK, item, {**status, "conditions": [*status.get("conditions", []), failed]})
            return None
        if not done:
            return self._check_every
        finished = {"type": "Completed", "status": "True"}
        self._write(TASK, item, {**status, "completionTime": now_text(), "conditions": [finished]})
        return None

    def _login(self, connection: Json) -> Login:
        """Return who logs in where; raises _MissingError while the Secret is missing or incomplete."""
        reference = connection.get("authSecretRef", {})
        secret = self._store.get(SECRET, reference.get("namespace", ""), reference.get("name", ""))
        data = (secret or {}).get("data", {})
        if "username" not in data or "password" not in data:
            raise _MissingError
        user, password = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
        redfish = connection.get("providerOptions", {}).get("redfish", {})
        port, basic = redfish.get("port", 443), bool(redfish.get("useBasicAuth"))
        return Login(connection["host"], port, user, password, basic)

    def _write(self, kind: Kind, item: Json, status: Json) -> None:
        """Write a status, unless the object went away or is another by now."""
        metadata = item["metadata"]
        present = self._store.get(kind, metadata["namespace"], metadata["name"])
        if present is not None and present["metadata"]["uid"] == metadata["uid"]:
            self._store.replace(kind, {**copy.deepcopy(present), "status": status})


class _Loop:
    """The work queue of one kind: each change, a pause, or a Task of a Job is a reason to look."""

    def __init__(self, store: Store, kind: Kind, reconcile: Reconcile, workers: int, also: Kind | None = None) -> None:
        self._store, self._kind, self._reconcile, self._also = store, kind, reconcile, also
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._waiting: set[tuple[str, str]] = set()
        self._busy: set[tuple[str, str]] = set()
        self._failures: dict[tuple[str, str], int] = {}
        self._workers = workers
        store.listen(self._changed)
        for item in store.of(kind):
            self._add((item["metadata"]["namespace"], item["metadata"]["name"]))

    def _changed(self, event: Event) -> None:
        metadata = event.item["metadata"]
        if event.kind is self._kind and event.change is not Change.DELETED:
            self._add((metadata["namespace"], metadata["name"]))
        elif event.kind is self._also and (owner := metadata.get("labels", {}).get("owner-name")):
            self._add((metadata["namespace"], owner))

    def _add(self, place: tuple[str, str]) -> None:
        if place not in self._waiting:
            self._waiting.add(place)
            self._queue.put_nowait(place)

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            place = await self._queue.get()
            if place in self._busy:
                self._queue.put_nowait(place)
                await asyncio.sleep(0.01)
                continue
            self._waiting.discard(place)
            item = self._store.get(self._kind, *place)
            if item is None:
                continue
            self._busy.add(place)
            try:
                again = await self._reconcile(item)
                self._failures.pop(place, None)
            except _MissingError:
                tries = self._failures[place] = self._failures.get(place, 0) + 1
                again = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 30))
            finally:
                self._busy.discard(place)
            if again is not None:
                loop.call_later(again, self._add, place)


def _read_power(login: Login) -> str:
    with Connection(login) as bmc:
        state: str = redfish_client.guarded(bmc.power_state, "get power state", "failed to get power state")
        return state


def _perform(login: Login, action: Json) -> None:
    with Connection(login) as bmc:
        if "powerAction" in action:
            power = action["powerAction"]
            redfish_client.guarded(
                lambda: bmc.set_power(power), "failed to perform PowerAction", "failed to set power state"
            )
        elif "bootDevice" in action:
            device = action["bootDevice"]
            redfish_client.guarded(
                lambda: bmc.set_boot_device(
                    device.get("device", ""),
                    efi=device.get("efiBoot", False),
                    persistent=device.get("persistent", False),
                ),
                "failed to set BootDevice, ok: false, err",
                "failed to set boot device",
            )
        else:
            raise BmcError("failed to perform an action that is not part of this stand-in")


def _is_done(login: Login, action: Json) -> bool:
    """Tell whether an action shows its effect; only on and off are looked at."""
    wanted = action.get("powerAction")
    with Connection(login) as bmc:
        if wanted not in {"on", "off"}:
            return True
        state: str = redfish_client.guarded(bmc.power_state, "get power state", "failed to get power state")
        return bool(state == wanted)


def _new_task(job: Json, name: str, connection: Json, action: Json) -> Json:
    metadata = job["metadata"]
    owner = {"apiVersion": JOB.api_version, "controller": True, "kind": JOB.name, "name": metadata["name"]}
    return {
        "apiVersion": TASK.api_version,
        "kind": TASK.name,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {"owner-name": metadata["name"]},
            "ownerReferences": [owner | {"uid": metadata["uid"]}],
        },
        "spec": {"connection": copy.deepcopy(connection), "task": _without_zeros(action)},
    }


def _without_zeros(action: Json) -> Json:
    return {
        key: {k: v for k, v in value.items() if v is not False} if isinstance(value, dict) else value
        for key, value in action.items()
    }


def _has(status: Json, condition: str) -> bool:
    return any(c["type"] == condition and c["status"] == "True" for c in status.get("conditions", []))


def _contactable(status: Json, problem: str | None) -> None:
    """Set the Contactable condition; one that says the same keeps its time."""
    wanted: Json = {"type": "Contactable", "status": "True" if problem is None else "False"}
    if problem is not None:
        wanted["message"] = problem
    present = (status.get("conditions") or [{}])[0]
    if {key: value for key, value in present.items() if key != "lastUpdateTime"} != wanted:
        status["conditions"] = [{**wanted, "lastUpdateTime": now_text()}]
