"""Runs the actions of a Workflow as OCI containers with crun, in the memory of the netbooted machine."""

import contextlib
import ctypes
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fleet_lab.hookos.bundle import Volume, runtime_configuration
from fleet_lab.hookos.pull import Reference, pull

_PR_SET_CHILD_SUBREAPER = 36


class ActionRefusedError(RuntimeError):
    """This HookOS does not run that image."""


@dataclass(frozen=True)
class Exit:
    """How a container ended: its exit status, or that it was stopped because its time was up."""

    status: int
    timed_out: bool = False


@dataclass
class CrunRunner:
    """Pulls action images and runs them.

    `permitted` are the digests that this HookOS may run; None permits any. A measured HookOS names them: whoever
    answers as Tinkerbell could otherwise run his own program on a system that attests as ours.
    """

    folder: Path
    permitted: "frozenset[str] | None" = None
    _count: int = field(default=0, init=False)

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
        """Run one action to its end; its output goes to the console, line by line, with the action's name.

        Raises:
            ActionRefusedError: the image is not among the permitted ones.
            PullError, OSError, ValueError: it cannot be had, or the Template asks for something impossible.
        """
        reference = Reference.parse(image)
        if self.permitted is not None and reference.digest not in self.permitted:
            raise ActionRefusedError(f"{reference.digest} is not an action image of this HookOS")
        parsed = [Volume.parse(text) for text in volumes]
        for volume in parsed:
            Path(volume.source).mkdir(parents=True, exist_ok=True)
        unpacked = self._unpacked(reference)
        described = json.loads((unpacked / "image.json").read_text())
        self._count += 1
        bundle = self.folder / f"bundle-{self._count}"
        with _overlay(unpacked / "rootfs", bundle):
            configuration = runtime_configuration(described, command, environment, parsed, pid)
            (bundle / "config.json").write_text(json.dumps(configuration))
            return _crun(bundle, f"action-{os.getpid()}-{self._count}", name, timeout)

    def _unpacked(self, reference: Reference) -> Path:
        folder = self.folder / reference.digest.replace(":", "-")
        if not (folder / "image.json").exists():
            scratch = folder.with_suffix(".part")
            subprocess.run(["rm", "-rf", str(scratch)], check=True)
            described = pull(reference, scratch)
            (scratch / "image.json").write_text(json.dumps(described))
            scratch.rename(folder)
        return folder


@contextlib.contextmanager
def _overlay(lower: Path, bundle: Path) -> Iterator[None]:
    """Give each action its own writable view of the image, as a container runtime does."""
    rootfs = bundle / "rootfs"
    for part in (rootfs, bundle / "upper", bundle / "work"):
        part.mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={bundle / 'upper'},workdir={bundle / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", str(rootfs)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(rootfs)], check=False)
        subprocess.run(["rm", "-rf", str(bundle)], check=False)


def _crun(bundle: Path, container: str, name: str, timeout: float) -> Exit:
    """Run a container until its first process ends.

    crun in the foreground waits for everything that the container started, and so for the helper of `finish`, which
    waits for this action to end. So the container is made first, which leaves its process to us, and then started.
    """
    # The root of an initramfs cannot be pivoted away from; there is no cgroup controller that anything here needs.
    crun = ["crun", "--cgroup-manager=disabled"]
    pid_file = bundle / "pid"
    heard, said = os.pipe()
    reader = threading.Thread(target=_copy_lines, args=(os.fdopen(heard, "rb"), name), daemon=True)
    reader.start()
    try:
        started = subprocess.run(
            [*crun, "create", "--no-pivot", f"--pid-file={pid_file}", f"--bundle={bundle}", container],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
        )
    finally:
        os.close(said)
    if started.returncode:
        reader.join(2)
        return Exit(started.returncode)
    pid = int(pid_file.read_text())
    subprocess.run([*crun, "start", container], stdin=subprocess.DEVNULL, check=True)
    timed_out = not _ends(pid, timeout)
    if timed_out:
        subprocess.run([*crun, "kill", container, "KILL"], check=False)
    _, status = os.waitpid(pid, 0)
    # A detached process of the action may hold the pipe open: its words are not waited for.
    reader.join(2)
    subprocess.run([*crun, "delete", "--force", container], check=False, capture_output=True)
    return Exit(os.waitstatus_to_exitcode(status), timed_out)


def _ends(pid: int, timeout: float) -> bool:
    """Wait for a process to end, at most `timeout` seconds."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], timeout)[0])
    finally:
        os.close(descriptor)


def adopt_orphans() -> None:
    """Become the parent of what detached containers leave behind (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this process cannot adopt orphans")


def _copy_lines(source: IO[bytes], name: str) -> None:
    for line in source:
        sys.stdout.write(f"[{name}] {line.decode(errors='replace').rstrip()}\n")
        sys.stdout.flush()
