"""The Power port over Rufio: a BMC Machine per machine, and Jobs of the few steps that Rufio performs as it says."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from fleetd.core.names import MachineId, RunId
from fleetd.ports import CredentialsRefusedError, JobOutcome, JobSeen, OutageError, PowerState, PowerStep, RefusedError
from fleetd.tinkerbell.api import JOBS, MACHINES, TASKS, Api, ConflictError, Json
from fleetd.tinkerbell.names import BMC_READY_LABEL, MACHINE_LABEL, RUN_LABEL, job_name, machine_name

POKE = "fleet/poke"
"""An annotation: touching it makes Rufio ask the BMC at once."""
REFUSED = "fleet/refused"
"""An annotation of Jobs whose BMC refused a login outside of them."""
LOOK_EVERY = 0.2
LONGEST_PROBLEM = 500

_ACTIONS: dict[PowerStep, Json] = {
    PowerStep.OFF: {"powerAction": "off"},
    PowerStep.ON: {"powerAction": "on"},
    PowerStep.BOOT_NETWORK: {"bootDevice": {"device": "pxe", "efiBoot": True, "persistent": True}},
    PowerStep.BOOT_DISK: {"bootDevice": {"device": "disk", "efiBoot": True, "persistent": True}},
}
_LOGIN = "failed to open connection to BMC"
"""What Rufio says where it could not log in."""
_REFUSAL = re.compile(
    r"\b40[13]\b|unauthorized|account.{0,20}locked|invalid (?:user|username|credential|password)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RufioPower:
    """Rufio. Raises OutageError and RefusedError.

    `settle` is how long `state` waits for a fresh answer of the BMC, in seconds: Rufio asks at once, but writes
    only what changed, so that an unchanged state cannot be told from one that is still being asked for.
    """

    api: Api
    settle: float = 1.0
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def credentials_ready(self, secret: str) -> bool:
        """Tell whether the owner's Secret exists and is labelled ready; its content is never read."""
        return secret in self.api.secret_names(f"{BMC_READY_LABEL}=ready")

    def keep_bmc(self, machine: MachineId, address: str, secret: str) -> None:
        """Create or update the BMC Machine; never before its Secret is ready: Rufio would log in again and again."""
        if not self.credentials_ready(secret):
            raise RefusedError(f"Secret {secret} does not exist or is not labelled {BMC_READY_LABEL}=ready.")
        name = machine_name(machine)
        spec = {"connection": connection(address, secret, self.api.namespace)}
        created = self.api.create(MACHINES, MACHINES.body(name, {MACHINE_LABEL: str(machine)}, spec))
        if not created.existed or _same(created.item["spec"]["connection"], spec["connection"]):
            return
        try:
            self.api.replace(MACHINES, {**created.item, "spec": spec})
        except (ConflictError, LookupError) as error:
            raise OutageError(f"BMC Machine {name} changed while it was written.") from error

    def remove_bmc(self, machine: MachineId) -> None:
        """Remove the BMC Machine; absent is fine."""
        self.api.delete(MACHINES, machine_name(machine))

    def start(self, run: RunId, machine: MachineId, name: str, steps: tuple[PowerStep, ...]) -> None:
        """Create a Job of these steps under a name used once (`<run hex>-<name>`); existing is success."""
        labels = {RUN_LABEL: str(run), MACHINE_LABEL: str(machine)}
        reference = {"name": machine_name(machine), "namespace": self.api.namespace}
        spec = {"machineRef": reference, "tasks": [_ACTIONS[step] for step in steps]}
        full = job_name(run, name)
        created = self.api.create(JOBS, JOBS.body(full, labels, spec))
        if created.existed and created.item["metadata"].get("labels", {}).get(RUN_LABEL) != str(run):
            raise RefusedError(f"Job {full} exists and is not of this run: delete it by hand.")

    def job(self, run: RunId, name: str) -> JobSeen:
        """Read a Job. One that a BMC refused to log in for takes the BMC Machine with it: Rufio would go on trying."""
        item = self.api.get(JOBS, job_name(run, name))
        if item is None:
            return JobSeen(JobOutcome.ABSENT)
        conditions = _true_conditions(item)
        if "Failed" in conditions:
            return self._failed(item)
        if "Completed" not in conditions and REFUSED in item["metadata"].get("annotations", {}):
            return JobSeen(JobOutcome.CREDENTIALS_REFUSED, "The BMC refused the login when its state was asked for.")
        return JobSeen(JobOutcome.COMPLETED if "Completed" in conditions else JobOutcome.RUNNING)

    def remove_jobs(self, run: RunId) -> None:
        """Delete the Jobs of a run."""
        for item in self.api.labelled(JOBS, f"{RUN_LABEL}={run}"):
            self.api.delete(JOBS, item["metadata"]["name"], item["metadata"]["uid"])

    def state(self, machine: MachineId) -> PowerState:
        """Ask for a fresh power state and return it; the last one when nothing new comes in time.

        Raises CredentialsRefusedError when the BMC refuses the credentials; the BMC Machine is gone then.
        """
        name = machine_name(machine)
        poked = self.api.annotate(MACHINES, name, POKE, datetime.now(UTC).isoformat())
        if poked is None:
            return PowerState.UNKNOWN
        end = self.monotonic() + self.settle
        item: Json | None = poked
        while item is not None and item["metadata"]["resourceVersion"] == poked["metadata"]["resourceVersion"]:
            if self.monotonic() >= end:
                break
            self.sleep(LOOK_EVERY)
            item = self.api.get(MACHINES, name)
        if item is None:
            return PowerState.UNKNOWN
        if refused(_contact_problem(item)):
            self._give_up(machine)
            raise CredentialsRefusedError(f"The BMC of machine {machine} refuses the credentials of its Secret.")
        return _power_state(item)

    def _give_up(self, machine: MachineId) -> None:
        """Remove the BMC Machine; Jobs that wait for it would wait for ever, so they are told why."""
        for item in self.api.labelled(JOBS, f"{MACHINE_LABEL}={machine}"):
            self.api.annotate(JOBS, item["metadata"]["name"], REFUSED, "login")
        self.remove_bmc(machine)

    def _failed(self, item: Json) -> JobSeen:
        name = item["metadata"]["name"]
        tasks = self.api.labelled(TASKS, f"owner-name={name}")
        problems = [text for task in tasks if (text := _true_conditions(task).get("Failed"))]
        problem = shortened(problems[0] if problems else _true_conditions(item).get("Failed", ""))
        if any(refused(text) for text in problems):
            self.api.delete(MACHINES, item["spec"]["machineRef"]["name"])
            return JobSeen(JobOutcome.CREDENTIALS_REFUSED, problem)
        return JobSeen(JobOutcome.FAILED, problem)


def connection(address: str, secret: str, namespace: str) -> Json:
    """Return the connection of a BMC at `host`, `host:port`, `[v6]:port` or a URL; pure.

    Raises RefusedError when the address cannot be read.
    """
    try:
        split = urlsplit(address if "://" in address else f"//{address}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if not host:
        raise RefusedError(f"{address!r} is no address of a BMC.")
    shown = f"[{host}]" if ":" in host else host
    result: Json = {
        "host": f"http://{shown}" if address.startswith("http://") else shown,
        "insecureTLS": True,  # required by the schema and ignored by Rufio
        "authSecretRef": {"name": secret, "namespace": namespace},
        "providerOptions": {"preferredOrder": ["gofish"]},
    }
    if port:
        result["providerOptions"]["redfish"] = {"port": port}
    return result


def refused(problem: str) -> bool:
    """Tell whether a failure means that the BMC refused the credentials; pure.

    Only a login can: fleetd lets Rufio open a session each time, and a 401 after that means that the BMC has lost the
    session (it restarted, or had too many). Rufio asks all its providers at once. What the Redfish one got decides where
    it is named: others fail with all kinds of answers on a BMC that is not theirs.
    """
    if _LOGIN not in problem:
        return False
    answers = problem.split("\n\t* ")
    redfish = [answer for answer in answers if answer.startswith("provider: gofish")]
    return any(_REFUSAL.search(answer) for answer in redfish or answers)


def shortened(problem: str) -> str:
    """Return the line of a failure that says most; pure."""
    lines = [line.strip(" \t*") for line in problem.splitlines() if line.strip()]
    chosen = next((line for line in lines if "provider: gofish" in line), lines[0] if lines else "")
    return chosen[:LONGEST_PROBLEM]


def _true_conditions(item: Json) -> dict[str, str]:
    """Return the conditions that hold, with their messages; Running stays beside Completed and Failed."""
    conditions = item.get("status", {}).get("conditions", ())
    return {c["type"]: c.get("message", "") or c["type"] for c in conditions if c.get("status") == "True"}


def _contact_problem(item: Json) -> str:
    conditions = item.get("status", {}).get("conditions", ())
    told = [c.get("message", "") for c in conditions if c.get("type") == "Contactable" and c.get("status") != "True"]
    return told[0] if told else ""


def _power_state(item: Json) -> PowerState:
    try:
        return PowerState(item.get("status", {}).get("powerState", "unknown"))
    except ValueError:
        return PowerState.UNKNOWN


def _same(stored: Json, wanted: Json) -> bool:
    """Compare connections, the API's default port aside."""
    return {key: value for key, value in stored.items() if key != "port"} == wanted
