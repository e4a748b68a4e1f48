"""A Tinkerbell agent in Python: asks for actions, runs them, and reports as the Go agent does.

Runs on Python 3.11 with Debian's python3-grpcio; needs nothing else beyond the standard library.
"""

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from fleet_lab import agent_protocol as wire
from fleet_lab.agent_protocol import State

ASK_DEADLINE = 75.0
"""Seconds for GetAction: the server answers a call that finds nothing after 59 s."""
REPORT_DEADLINE = 75.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0

_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 300), ("grpc.max_reconnect_backoff_ms", 3000)]
"""A channel's own pauses grow to two minutes: a server that was restarted would be found late."""

_NOTHING_YET = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}
_LAST_WORD = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
}
"""Refusals of a final report that end the Go agent; anything else is reported again, for ever."""


class _StoppedError(Exception):
    """The agent was told to stop while it waited for the server."""


class Exit(Protocol):
    """How an action ended."""

    @property
    def status(self) -> int:
        """Exit status."""
        ...

    @property
    def timed_out(self) -> bool:
        """Whether it was stopped because its time was up."""
        ...


class ActionRunner(Protocol):
    """Runs an action's image, or what stands for it."""

    def run(
        self,
        *,
        name: str,
        image: str,
        command: Sequence[str],
        environment: Sequence[str],
        volumes: Sequence[str],
        pid: str,
        timeout: float,
    ) -> Exit:
        """Run one action to its end; raises any exception when it cannot be started."""
        ...


@dataclass(frozen=True)
class ActionExit:
    """An action that ended."""

    status: int
    timed_out: bool = False


@dataclass
class SubprocessRunner:
    """Runs actions as `python -m fleet_machine ...` in a process of this host, for machines without an image."""

    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to each action's own environment: how it finds this machine's TPM, disks and folders."""
    log: "Callable[[str], None]" = lambda line: print(line, flush=True)
    _process: "subprocess.Popen[str] | None" = field(default=None, init=False)

    def run(
        self,
        *,
        name: str,
        image: str,  # noqa: ARG002 - the process stands for every image
        command: Sequence[str],
        environment: Sequence[str],
        volumes: Sequence[str],  # noqa: ARG002
        pid: str,  # noqa: ARG002
        timeout: float,
    ) -> ActionExit:
        """Run one action; its output goes to the log, line by line, with the action's name."""
        own = dict(pair.split("=", 1) for pair in environment)
        with subprocess.Popen(
            [self.python, "-m", "fleet_machine", *command],
            env={**os.environ, **own, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self._process = process
            timer = threading.Timer(timeout, process.kill)
            timer.start()
            try:
                for line in process.stdout or ():
                    self.log(f"[{name}] {line.rstrip()}")
                status = process.wait()
            finally:
                late = not timer.is_alive()
                timer.cancel()
                self._process = None
        return ActionExit(status, timed_out=late and status != 0)

    def kill(self) -> None:
        """End the action under way at once, as a power cut does."""
        process = self._process
        if process is not None:
            process.kill()


@dataclass
class Agent:
    """Works for one machine until told to stop."""

    server: str
    """host:port of the agents' service."""
    agent_id: str
    runner: ActionRunner
    attributes: "Mapping[str, Any] | None" = None
    log: "Callable[[str], None]" = lambda line: print(line, flush=True)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask, run, report, until `stop` is set or the server says that the action is gone."""
        with contextlib.suppress(_StoppedError), grpc.insecure_channel(self.server, _RECONNECT) as channel:
            pause = FIRST_PAUSE
            while not self.stop.is_set():
                action = self._ask(channel)
                if action is None:
                    self.stop.wait(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
                    pause = min(LONGEST_PAUSE, pause * 1.5)
                    continue
                pause = FIRST_PAUSE
                if self._report(channel, action, State.RUNNING, "running action") and not self._carry_out(
                    channel, action
                ):
                    return

    def _ask(self, channel: grpc.Channel) -> "wire.Message | None":
        request: wire.Message = {"agent_id": self.agent_id}
        if self.attributes is not None:
            request["agent_attributes"] = dict(self.attributes)
        try:
            answer = self._call(channel, wire.GET_ACTION, wire.encode(wire.ACTION_REQUEST, request), ASK_DEADLINE)
        except grpc.RpcError as error:
            if error.code() not in _NOTHING_YET and not self.stop.is_set():
                self.log(f"agent: GetAction: {error.code().name}")
            return None
        return wire.decode(wire.ACTION_RESPONSE, answer)

    def _carry_out(self, channel: grpc.Channel, action: wire.Message) -> bool:
        """Run an action and report its end; False when the agent must end."""
        started = time.time()
        state = self._run(action)
        if self.stop.is_set():
            return True
        while not self.stop.is_set():
            try:
                self._send(channel, action, state, "action completed", started)
            except grpc.RpcError as error:
                self.log(f"agent: report of {action.get('name')}: {error.code().name}")
                if error.code() in _LAST_WORD:
                    return False
                self.stop.wait(random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            else:
                return True
        return True

    def _run(self, action: wire.Message) -> State:
        seconds = action.get("timeout", 0)
        if seconds <= 0:
            return State.TIMEOUT
        try:
            ended = self.runner.run(
                name=action.get("name", ""),
                image=action.get("image", ""),
                command=action.get("command", []),
                environment=action.get("environment", []),
                volumes=action.get("volumes", []),
                pid=action.get("pid", ""),
                timeout=float(seconds),
            )
        except Exception as error:  # noqa: BLE001 - whatever stops an action is its failure, and is said
            self.log(f"agent: {action.get('name')} cannot run: {error}")
            return State.FAILED
        if ended.timed_out:
            return State.TIMEOUT
        return State.SUCCESS if ended.status == 0 else State.FAILED

    def _report(self, channel: grpc.Channel, action: wire.Message, state: State, words: str) -> bool:
        try:
            self._send(channel, action, state, words, None)
        except grpc.RpcError as error:
            self.log(f"agent: report of {action.get('name')}: {error.code().name}")
            return False
        return True

    def _send(
        self, channel: grpc.Channel, action: wire.Message, state: State, words: str, started: "float | None"
    ) -> None:
        start, stop = wire.ZERO_TIME, wire.ZERO_TIME
        if started is not None:
            start, stop = _timestamp(started), _timestamp(time.time())
        request = {
            "workflow_id": action["workflow_id"],
            "agent_id": self.agent_id,
            "task_id": action["task_id"],
            "action_id": action["action_id"],
            "action_name": action.get("name", ""),
            "action_state": state,
            "execution_start": start,
            "execution_stop": stop,
            "execution_duration": "" if started is None else f"{time.time() - started:.0f}s",
            "message": {"message": words},
        }
        self._call(channel, wire.REPORT, wire.encode(wire.STATUS_REQUEST, request), REPORT_DEADLINE)

    def _call(self, channel: grpc.Channel, method: str, data: bytes, deadline: float) -> bytes:
        """Call a method; a stop in the meantime cancels it."""
        pending = channel.unary_unary(f"/{wire.SERVICE}/{method}").future(data, timeout=deadline, wait_for_ready=True)
        ended = threading.Event()
        pending.add_done_callback(lambda _: ended.set())
        while not ended.wait(0.2):
            if self.stop.is_set():
                pending.cancel()
                raise _StoppedError
        answer: bytes = pending.result()
        return answer


def _timestamp(moment: float) -> "dict[str, int]":
    seconds = int(moment)
    return {"seconds": seconds, "nanos": int((moment - seconds) * 1e9)}
