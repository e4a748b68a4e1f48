"""A Tinkerbell to test against (the stand-in, or a real one), and the simplest ways to speak to it."""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import kubernetes

from fleet_lab import agent_protocol as wire
from fleet_lab.agent_protocol import State
from fleetd.tinkerbell.connect import configuration

NAMESPACE = "default"
TINK = "/apis/tinkerbell.org/v1alpha1/namespaces/default"
BMC = "/apis/bmc.tinkerbell.org/v1alpha1/namespaces/default"
MERGE = "application/merge-patch+json"
TEMPLATE = """\
version: "0.1"
name: two
global_timeout: 600
tasks:
  - name: install
    worker: "{{.device_1}}"
    volumes:
      - /dev:/dev
    environment:
      LEVEL: "task"
    actions:
      - name: first
        image: registry.example/action:1
        timeout: 60
        environment:
          LEVEL: "action"
          NAME: {{ .name | quote }}
      - name: second
        image: registry.example/action:1
        timeout: 60
        command: ["action", "second"]
        pid: host
"""
ONE = TEMPLATE[: TEMPLATE.index("      - name: second")]


def eventually(look: Callable[[], Any], seconds: float = 20) -> Any:
    """Return the first truthy result of `look`; fail when there is none in time."""
    end = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any
    headers: Any

    @property
    def reason(self) -> str:
        return self.body.get("reason", "")


@dataclass
class Place:
    """The Tinkerbell under test. Objects made through it are removed at the end."""

    kubeconfig: Path
    grpc: str
    real: bool
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.configuration = configuration(self.kubeconfig)
        self._pool = kubernetes.client.ApiClient(self.configuration).rest_client.pool_manager
        self._auth = {
            item["key"]: item["value"] for item in self.configuration.auth_settings().values() if item["in"] == "header"
        }
        self.channel = grpc.insecure_channel(self.grpc)

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        headers = {} if options.get("anonymous") else dict(self._auth)
        headers["Accept"] = options.get("accept", "application/json")
        if body is not None:
            headers["Content-Type"] = options.get("content_type") or "application/json"
        content = body if isinstance(body, str) or body is None else json.dumps(body)
        answer = self._pool.request(method, self.configuration.host + path, body=content, headers=headers, timeout=30)
        text = answer.data.decode()
        is_json = "json" in answer.headers.get("Content-Type", "")
        parsed = json.loads(text) if is_json else text
        if method == "POST" and answer.status == 201:
            self.made.append(f"{path.split('?', maxsplit=1)[0]}/{parsed['metadata']['name']}")
        return Reply(answer.status, parsed, answer.headers)

    @contextmanager
    def watching(self, path: str) -> Iterator[list[dict[str, Any]]]:
        """Collect the lines of a watch while the context is open; `path` ends in `?watch=true&...`."""
        lines: list[dict[str, Any]] = []
        answer = self._pool.request(
            "GET", self.configuration.host + path, headers=dict(self._auth), preload_content=False, timeout=60
        )

        def read() -> None:
            rest = b""
            try:
                for chunk in answer.stream(amt=None, decode_content=False):
                    *whole, rest = (rest + chunk).split(b"\n")
                    lines.extend(json.loads(line) for line in whole if line.strip())
            except Exception:  # noqa: BLE001 - the stream is cut at the end
                return

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield lines
        finally:
            with suppress(RuntimeError):  # it has ended by itself
                answer.shutdown()
            thread.join(5)

    def clean(self) -> None:
        for path in reversed(self.made):
            self.call("DELETE", path)
        self.made.clear()

    # --- objects -----------------------------------------------------------------------------------------------------

    def create(self, path: str, kind: str, name: str, spec: Any, labels: Any = None) -> dict[str, Any]:
        group = path.split("/")[2]
        body = {
            "apiVersion": f"{group}/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "labels": labels or {}},
            "spec": spec,
        }
        plural = {"Hardware": "hardware", "Machine": "machines", "Job": "jobs"}.get(kind, f"{kind.lower()}s")
        reply = self.call("POST", f"{path}/{plural}", body)
        assert reply.status == 201, reply.body
        return reply.body

    def hardware(self, name: str, agent: str, **interface: Any) -> dict[str, Any]:
        mac = f"52:54:00:{uuid.uuid4().hex[:2]}:{uuid.uuid4().hex[:2]}:{uuid.uuid4().hex[:2]}"
        spec = {"agentID": agent, "interfaces": [{"dhcp": {"mac": mac}, **interface}]}
        return self.create(TINK, "Hardware", name, spec)

    def workflow(self, template: str = TEMPLATE, agent: str | None = None, **spec: Any) -> "Run":
        """Create Hardware, Template and Workflow under new names, and wait until the Workflow is rendered."""
        name = f"t-{uuid.uuid4().hex[:10]}"
        agent = agent or f"agent-{name}"
        self.hardware(name, agent)
        self.create(TINK, "Template", name, {"data": template})
        values = {"device_1": agent, "name": name}
        wanted = {"templateRef": name, "hardwareRef": name, "hardwareMap": values, **spec}
        self.create(TINK, "Workflow", name, wanted)
        run = Run(self, name, agent)
        eventually(lambda: run.status.get("templateRendering") or run.status.get("agentID"))
        return run

    # --- agents ------------------------------------------------------------------------------------------------------

    def get_action(self, agent: str, seconds: float = 3.0) -> dict[str, Any]:
        data = wire.encode(wire.ACTION_REQUEST, {"agent_id": agent})
        method = self.channel.unary_unary(f"/{wire.SERVICE}/{wire.GET_ACTION}")
        return wire.decode(wire.ACTION_RESPONSE, method(data, timeout=seconds, wait_for_ready=True))

    def report(self, request: dict[str, Any], seconds: float = 3.0) -> None:
        data = wire.encode(wire.STATUS_REQUEST, request)
        method = self.channel.unary_unary(f"/{wire.SERVICE}/{wire.REPORT}")
        method(data, timeout=seconds, wait_for_ready=True)


@dataclass
class Run:
    """A Workflow, and the agent that works on it."""

    place: Place
    name: str
    agent: str

    @property
    def item(self) -> dict[str, Any]:
        return self.place.call("GET", f"{TINK}/workflows/{self.name}").body

    @property
    def status(self) -> dict[str, Any]:
        return self.item.get("status", {})

    @property
    def state(self) -> str:
        return self.status.get("state", "")

    @property
    def hardware(self) -> dict[str, Any]:
        return self.place.call("GET", f"{TINK}/hardware/{self.name}").body

    def take(self, seconds: float = 5.0) -> dict[str, Any]:
        return self.place.get_action(self.agent, seconds)

    def report(self, action: dict[str, Any], state: State, **more: Any) -> None:
        request = {
            "workflow_id": action["workflow_id"],
            "agent_id": self.agent,
            "task_id": action["task_id"],
            "action_id": action["action_id"],
            "action_name": action["name"],
            "action_state": state,
            "execution_start": wire.ZERO_TIME,
            "execution_stop": wire.ZERO_TIME,
            "message": {"message": "running action" if state is State.RUNNING else "action completed"},
        }
        if state not in {State.RUNNING, State.UNSPECIFIED, State.PENDING}:
            now = {"seconds": int(time.time())}
            request |= {"execution_start": now, "execution_stop": now, "execution_duration": "1s"}
        self.place.report(request | more)

    def perform(self, *states: State) -> dict[str, Any]:
        """Take an action and report it in these states."""
        action = self.take()
        for state in states:
            self.report(action, state)
        return action


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    """Return code and details of a call that fails; a deadline counts as `nothing yet`."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


NOTHING_YET = {"DEADLINE_EXCEEDED", "CANCELLED"}


def from_environment() -> tuple[Path, str] | None:
    """Return the real Tinkerbell that the environment names."""
    kubeconfig, server = os.environ.get("FLEET_LAB_KUBECONFIG"), os.environ.get("FLEET_LAB_TINK_GRPC")
    return (Path(kubeconfig), server) if kubeconfig and server else None
