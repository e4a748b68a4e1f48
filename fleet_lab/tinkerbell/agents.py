"""tink-server: the gRPC service that agents on machines ask for work and tell of it."""

import asyncio
import copy
import datetime as dt
import json
import random
from typing import Any

import grpc

from fleet_lab import agent_protocol as wire
from fleet_lab.agent_protocol import State
from fleet_lab.tinkerbell.kinds import HARDWARE, WORKFLOW
from fleet_lab.tinkerbell.store import Json, Store

ATTRIBUTES = "tinkerbell.org/agent-attributes"
RETRY_EVERY = 1.0
"""The real server tries every failing call once a second, whatever the error."""
GIVE_UP_AFTER = 59.0


class _RefusedError(Exception):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class WorkflowService:
    """GetAction and ReportActionStatus over a store."""

    def __init__(self, store: Store, give_up_after: float = GIVE_UP_AFTER) -> None:
        self._store = store
        self._give_up_after = give_up_after

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the two methods."""
        methods = {
            wire.GET_ACTION: grpc.unary_unary_rpc_method_handler(self._get_action),
            wire.REPORT: grpc.unary_unary_rpc_method_handler(self._report),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(wire.SERVICE, methods),))

    async def _get_action(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        request = await _decoded(wire.ACTION_REQUEST, data, context)
        return await self._retried(lambda: self._action_for(request), wire.ACTION_RESPONSE, context)

    async def _report(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        request = await _decoded(wire.STATUS_REQUEST, data, context)
        return await self._retried(lambda: self._note(request), wire.STATUS_RESPONSE, context)

    async def _retried(self, attempt: Any, table: wire.Table, context: grpc.aio.ServicerContext) -> bytes:
        end = asyncio.get_running_loop().time() + self._give_up_after
        while True:
            try:
                return wire.encode(table, attempt())
            except _RefusedError as refused:
                left = end - asyncio.get_running_loop().time()
                if left <= 0:
                    await context.abort(refused.code, refused.details)
                await asyncio.sleep(min(RETRY_EVERY, left))

    def _action_for(self, request: wire.Message) -> Json:
        agent = request.get("agent_id", "")
        if not agent:
            raise _RefusedError(grpc.StatusCode.INVALID_ARGUMENT, "invalid Agent ID")
        found = [item for item in self._store.of(WORKFLOW) if item.get("status", {}).get("agentID") == agent]
        if not found:
            raise _RefusedError(grpc.StatusCode.NOT_FOUND, "no Workflows found")
        item = random.choice(found)  # noqa: S311 - the order of the real server's cache is as random
        state = item["status"].get("state", "")
        if state == "PREPARING":
            raise _RefusedError(grpc.StatusCode.FAILED_PRECONDITION, "Workflow is in preparing state")
        if state not in {"PENDING", "RUNNING"}:
            raise _RefusedError(grpc.StatusCode.FAILED_PRECONDITION, "Workflow not in pending or running state")
        task, action = _current(item["status"], agent)
        self._serve(item, task, action, request)
        return _response(item, task, action, agent)

    def _serve(self, item: Json, task: Json, action: Json, request: wire.Message) -> None:
        """Note what is served; a RUNNING action that is served again stays as it is."""
        status = copy.deepcopy(item["status"])
        first = "currentState" not in status
        if status.get("currentState", {}).get("actionID") != action["id"]:
            status["currentState"] = {
                "actionID": action["id"],
                "actionName": action["name"],
                "agentID": task["agentID"],
                "state": "PENDING",
                "taskID": task["id"],
                "taskName": task["name"],
            }
        status.setdefault("bootOptions", {}).setdefault("allowNetboot", {})
        if first and request.get("agent_attributes"):
            self._keep_attributes(item, request["agent_attributes"])
        self._write(item, status)

    def _keep_attributes(self, item: Json, attributes: Json) -> None:
        hardware = self._store.get(HARDWARE, item["metadata"]["namespace"], item["spec"].get("hardwareRef", ""))
        if hardware is None:
            return
        changed = copy.deepcopy(hardware)
        text = json.dumps(_camel(attributes), separators=(",", ":"))
        changed["metadata"].setdefault("annotations", {})[ATTRIBUTES] = text
        self._store.replace(HARDWARE, changed)

    def _note(self, request: wire.Message) -> Json:
        for key, words in (("workflow_id", "workflow id"), ("task_id", "task name"), ("action_id", "action name")):
            if not request.get(key):
                raise _RefusedError(grpc.StatusCode.INVALID_ARGUMENT, f"invalid {words}")
        namespace, _, name = request["workflow_id"].partition("/")
        item = self._store.get(WORKFLOW, namespace, name)
        if item is None:
            raise _RefusedError(
                grpc.StatusCode.INTERNAL,
                "error reading from backend\nrpc error: code = Internal desc = error getting workflow: failed to get "
                f'workflow {namespace}/{name}: Workflow.tinkerbell.org "{name}" not found',
            )
        status = copy.deepcopy(item.get("status", {}))
        for task in status.get("tasks", []):
            for action in task["actions"]:
                if action["id"] == request["action_id"] and task["agentID"] == request.get("agent_id"):
                    _apply_report(status, task, action, request)
                    self._write(item, status)
                    return {}
        raise _RefusedError(grpc.StatusCode.NOT_FOUND, "action not found")

    def _write(self, item: Json, status: Json) -> None:
        self._store.replace(WORKFLOW, {**copy.deepcopy(item), "status": status})


def _current(status: Json, agent: str) -> tuple[Json, Json]:
    """Return the task and action to serve: the one under way, or the one after the last success."""
    current = status.get("currentState", {})
    for task in status.get("tasks", []):
        actions = task["actions"]
        if not actions or actions[-1]["state"] == "SUCCESS":
            continue
        if task["agentID"] != agent:
            raise _RefusedError(grpc.StatusCode.NOT_FOUND, "task not assigned to Agent")
        ids = [action["id"] for action in actions]
        if current.get("actionID") not in ids:
            return task, actions[0]
        at = ids.index(current["actionID"])
        return task, actions[at + 1 if current.get("state") == "SUCCESS" else at]
    raise _RefusedError(grpc.StatusCode.NOT_FOUND, "no Tasks found")


def _apply_report(status: Json, task: Json, action: Json, request: wire.Message) -> None:
    number = request.get("action_state", 0)
    state = State(number).name if number in set(State) else str(number)
    action["state"] = state
    for key, field in (("executionStart", "execution_start"), ("executionStop", "execution_stop")):
        action.pop(key, None)
        if (text := _time_text(request.get(field))) is not None:
            action[key] = text
    action.pop("executionDuration", None)
    if request.get("execution_duration"):
        action["executionDuration"] = request["execution_duration"]
    if "message" in request:
        action["message"] = request["message"].get("message", "")
    status["currentState"] = {
        "actionID": action["id"],
        "actionName": request.get("action_name", ""),
        "agentID": request["agent_id"],
        "state": state,
        "taskID": request["task_id"],
        "taskName": task["name"],
    }
    is_last = status["tasks"][-1]["actions"][-1]["id"] == action["id"]
    if state != "SUCCESS":
        status["state"] = state
    elif is_last:
        status["state"] = "POST"
    status.setdefault("bootOptions", {}).setdefault("allowNetboot", {})


def _time_text(moment: Json | None) -> str | None:
    """Return the time as the API stores it; Go's zero time is none."""
    seconds = (moment or wire.ZERO_TIME).get("seconds", 0)
    if seconds == wire.ZERO_TIME["seconds"]:
        return None
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _response(item: Json, task: Json, action: Json, agent: str) -> Json:
    metadata = item["metadata"]
    environment = {**task.get("environment", {}), **action.get("environment", {})}
    response: Json = {
        "workflow_id": f"{metadata['namespace']}/{metadata['name']}",
        "task_id": task["id"],
        "agent_id": agent,
        "action_id": action["id"],
        "name": action["name"],
        "image": action["image"],
        "timeout": action.get("timeout", 0),
        "command": action.get("command", []),
        "volumes": [*task.get("volumes", []), *action.get("volumes", [])],
        "environment": sorted(f"{key}={value}" for key, value in environment.items()),
        "pid": action.get("pid", ""),
    }
    if action.get("namespaces"):
        response["namespaces"] = action["namespaces"]
    return response


_RENAMED = {"block": "blockDevices", "network": "networkInterfaces", "pci": "pciDevices", "gpu": "gpuDevices"}


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {}
    for key, inner in value.items():
        first, *rest = key.split("_")
        renamed[_RENAMED.get(key, first + "".join(part.capitalize() for part in rest))] = _camel(inner)
    return renamed


async def _decoded(table: wire.Table, data: bytes, context: grpc.aio.ServicerContext) -> wire.Message:
    try:
        return wire.decode(table, data)
    except ValueError:
        await context.abort(grpc.StatusCode.INTERNAL, "grpc: error unmarshalling request")
        raise
