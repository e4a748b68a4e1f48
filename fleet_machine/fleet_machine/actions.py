"""The actions of a Workflow: each makes sure of its session, asks leave, does one thing, and tells what came of it."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet_machine.clock import format_time
from fleet_machine.disk.erase import ErasePlan, Erasure, evidence_of
from fleet_machine.disk.methods import Method
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.source import WantedDisk, find, folded, held
from fleet_machine.disk.write_image import ImageWanted, ImageWriter
from fleet_machine.enroll import Enrollment, connected
from fleet_machine.failure import FleetError, RefusedError
from fleet_machine.install import set_boot, write_seed
from fleet_machine.runcalls import Kind, RunCalls
from fleet_machine.runfolder import RunFolder
from fleet_machine.settings import RunSettings, decoded, required, whole
from fleet_machine.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Context:
    """What an action works with."""

    environment: Mapping[str, str]
    around: Surroundings
    calls: RunCalls
    folder: RunFolder

    def disk(self) -> WantedDisk:
        """Return the declared disk. Raises FleetError."""
        return WantedDisk(
            required(self.environment, "FLEET_DISK_SERIAL"),
            self.environment.get("FLEET_DISK_WWN", "").strip(),
            whole(self.environment, "FLEET_DISK_SIZE") or 0,
        )

    def disks(self) -> tuple[WantedDisk, ...]:
        """Return the declared disk and the further ones that a wipe erases too. Raises FleetError."""
        extra = self.environment.get("FLEET_EXTRA_SERIALS", "").split(",")
        return (self.disk(), *(WantedDisk(serial.strip()) for serial in extra if serial.strip()))

    def pace(self) -> Pace:
        """Return what reports progress to fleetd."""
        return Pace(self.around.clock, self.calls.progress)

    def now(self) -> str:
        """Return fleetd's time for a record."""
        return format_time(self.calls.client.time.now())


def run_action(name: str, environment: Mapping[str, str], surroundings: Surroundings) -> int:
    """Run one action to its end; return 0, or 1 after a failure that was said on the console and told to fleetd.

    Raises nothing: an agent sees only the exit status.
    """
    say = surroundings.console.say
    if name not in ACTIONS:
        say(f"There is no action {name!r}; there are: {', '.join(ACTIONS)}.")
        return 1
    try:
        run = RunSettings.from_environment(environment)
        calls = RunCalls(surroundings, connected(surroundings, environment), run, name)
    except FleetError as error:
        say(f"{name}: {error}")
        return 1
    context = Context(environment, surroundings, calls, RunFolder(surroundings.run_folder))
    say(f"{name}: started.")
    try:
        evidence = ACTIONS[name](context)
        if calls.session().run:
            calls.tell(Kind.FINISHED, data=evidence)
    except Exception as error:  # noqa: BLE001 - whatever it is, fleetd and the owner must read it
        words = str(error) if isinstance(error, FleetError | OSError) else f"internal error: {error!r}"
        say(f"{name} failed: {words}")
        _tell_failure(context, words, error)
        return 1
    say(f"{name}: done.")
    return 0


def _tell_failure(context: Context, words: str, error: Exception) -> None:
    """Tell fleetd, where this boot has a session; without one it knows already, or there is nobody to tell."""
    if context.folder.session() is None or not context.calls.run.run:
        return
    data: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, RefusedError):
        data |= {"status": error.status, "stop": error.stop}
    try:
        context.calls.tell(Kind.FAILED, words, data=data)
    except FleetError as silence:
        context.around.console.say(f"fleetd could not be told: {silence}")


def _enroll(context: Context) -> dict[str, Any]:
    """Enroll, unless this boot did so already: a repeat then only says again that it is done."""
    calls = context.calls
    kept = context.folder.session()
    if kept is None or kept.run != calls.run.run:
        Enrollment(context.around, calls.client, calls.run).until_verified()
    session = calls.session()
    return {"enrollment": session.enrollment, "node_name": session.node_name}


def _guard(context: Context) -> dict[str, Any]:
    context.calls.tell(Kind.STARTED)
    found = [find(context.around.disks, wanted) for wanted in context.disks()]
    if len({disk.path for disk in found}) != len(found):
        raise FleetError("Two of the declared disks are the same one.")
    first = found[0]
    return {
        "serial": first.serial,
        "wwn": first.wwn,
        "size": first.size,
        "model": first.model,
        "name": first.name,
        "dmi_serial": context.around.facts.dmi().serial,
        "disks": [{"serial": disk.serial, "wwn": disk.wwn, "size": disk.size} for disk in found],
    }


def _erase(context: Context) -> dict[str, Any]:
    around, wanted = context.around, context.disks()
    plan = ErasePlan.named(required(context.environment, "FLEET_ERASE"))
    context.calls.tell(Kind.STARTED)
    erased, zeroed = [], []
    for disk in wanted:
        context.calls.leave(disk.serial)
        with held(around.disks, disk) as opened:
            evidence = Erasure(
                opened,
                plan,
                around.commands,
                around.disks,
                frozenset(folded(item.serial) for item in wanted),
                around.clock,
                context.now,
                context.pace(),
                random.SystemRandom(),
            ).run()
        erased.append(evidence)
        if evidence["method"] == Method.OVERWRITE.value:
            zeroed.append(folded(disk.serial))
        if len(wanted) > 1:
            context.calls.tell(Kind.EVIDENCE, data=evidence_of([evidence]))
    context.folder.keep_note("erase", {"zero": zeroed})
    return evidence_of(erased)


def _write_image(context: Context) -> dict[str, Any]:
    around, environment, disk = context.around, context.environment, context.disk()
    size = whole(environment, "FLEET_IMAGE_SIZE")
    if not size:
        raise FleetError("The environment lacks FLEET_IMAGE_SIZE: the class must declare the image's raw size.")
    wanted = ImageWanted(
        required(environment, "FLEET_IMAGE_URL"),
        required(environment, "FLEET_IMAGE_SHA256"),
        size,
        environment.get("FLEET_IMAGE_KEY", ""),
        decoded(environment, "FLEET_CA").decode("ascii", "replace"),
    )
    context.calls.tell(Kind.STARTED)
    context.calls.leave(disk.serial)
    zeroed = folded(disk.serial) in context.folder.note("erase").get("zero", ())
    # From here on the disk is not known to be zero any more, whatever becomes of this attempt.
    context.folder.keep_note("erase", {"zero": []})
    with held(around.disks, disk) as opened:
        return ImageWriter(
            opened, wanted, around.commands, around.clock, context.pace(), random.SystemRandom(), disk_is_zero=zeroed
        ).run()


def _write_seed(context: Context) -> dict[str, Any]:
    disk = context.disk()
    context.calls.tell(Kind.STARTED)
    context.calls.leave(disk.serial)
    return write_seed(context.around, context.calls, disk, required(context.environment, "FLEET_FAMILY"))


def _set_boot(context: Context) -> dict[str, Any]:
    disk = context.disk()
    context.calls.tell(Kind.STARTED)
    context.calls.leave(disk.serial)
    return set_boot(context.around, disk, context.calls.session().node_name)


def _finish(context: Context) -> dict[str, Any]:
    context.calls.tell(Kind.STARTED)
    for wanted in context.disks():
        with held(context.around.disks, wanted) as opened:
            context.around.commands.forget_cache(opened.fd)
    context.around.reboot.begin_waiting(context.environment, context.around.run_folder)
    return {"flushed": True}


ACTIONS: Mapping[str, Callable[[Context], dict[str, Any]]] = {
    "enroll": _enroll,
    "guard": _guard,
    "erase": _erase,
    "write-image": _write_image,
    "write-seed": _write_seed,
    "set-boot": _set_boot,
    "finish": _finish,
}
