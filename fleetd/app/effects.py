"""Effects performed: each names its object after the run, so that a repeat finds its own work."""

from collections.abc import Mapping

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from fleetd.app.withdrawal import noted, take_back
from fleetd.app.world import World
from fleetd.core.leases import leases
from fleetd.core.lifecycle import effects as do
from fleetd.core.lifecycle.run import Run
from fleetd.core.names import IntentKind
from fleetd.core.outside import Part, WorkflowOutcome
from fleetd.ports import HardwareWanted, WorkflowWanted
from fleetd.store.machines import MachineRow
from fleetd.store.runs import ArchivedWorkflow


def perform(effect: do.Effect, run: Run, world: World) -> None:
    """Do one thing outside. Raises OutageError to be tried again, RefusedError when trying again will not help."""
    machine, orders = run.machine, run.orders
    match effect:
        case do.KeepHardware():
            note(world, run, hardware=True)
            world.provisioner.keep_hardware(hardware_wanted(run))
        case do.AllowPxe(allowed=True):
            note(world, run, pxe_open=True)
            world.provisioner.set_allow_pxe(machine, allowed=True)
        case do.AllowPxe():
            world.provisioner.set_allow_pxe(machine, allowed=False)
            note(world, run, pxe_open=False)
        case do.RemoveHardware():
            world.provisioner.remove_hardware(machine)
            note(world, run, hardware=False, pxe_open=False)
            noted(run, world, "hardware", "The machine's Workflows and Hardware are removed from Tinkerbell.")
        case do.KeepBmc():
            world.power.keep_bmc(machine, orders.bmc_address, orders.bmc_secret)
        case do.RemoveBmc():
            world.power.remove_bmc(machine)
            if not run.over:
                noted(run, world, "bmc", "The machine's BMC Machine is removed from Rufio.")
        case do.CreateWorkflow(part):
            world.provisioner.create_workflow(workflow_wanted(run, part, world))
        case do.ArchiveWorkflow(part):
            archive(run, part, world)
        case do.DeleteWorkflow(part):
            world.provisioner.delete_workflow(run.id, part)
        case do.DeleteStrays(names):
            for name in names:
                world.provisioner.delete_named(name)
        case do.PowerJob(name, steps):
            world.power.start(run.id, machine, name, steps)
        case do.RemoveJobs():
            world.power.remove_jobs(run.id)
        case do.HoldCertificates():
            world.authority.hold(machine)
        case do.ReleaseCertificates():
            world.authority.release(machine)
        case other:
            take_back(other, run, world)


def note(world: World, run: Run, **flags: bool) -> None:
    """Write what may exist outside: before it is made, and after it was cleared."""
    with world.sessions.begin() as session:
        row = session.get(MachineRow, run.machine)
        if row is not None:
            for name, value in flags.items():
                setattr(row, name, value)


def archive(run: Run, part: Part, world: World) -> None:
    """Keep the Workflow as it is read now; an archived one stays as it was at first sight."""
    seen = world.provisioner.workflow(run.id, part)
    if seen.outcome is WorkflowOutcome.ABSENT:
        return
    with world.sessions.begin() as session:
        _keep(session, run, part, seen.outcome, seen.raw or {}, world)


def _keep(
    session: Session, run: Run, part: Part, outcome: WorkflowOutcome, raw: Mapping[str, object], world: World
) -> None:
    statement = insert(ArchivedWorkflow).values(
        run_id=run.id, part=part.value, outcome=outcome.value, raw=dict(raw), at=world.clock.now()
    )
    session.execute(statement.on_conflict_do_nothing())


def hardware_wanted(run: Run) -> HardwareWanted:
    """Return the Hardware of a run's machine; netboot is allowed by an effect of its own."""
    orders = run.orders
    given = {lease.mac: lease for lease in leases(orders)}
    return HardwareWanted(
        machine=run.machine,
        node_name=orders.node_name,
        macs=orders.macs,
        addresses=tuple(given[mac].address if mac in given else "" for mac in orders.macs),
        gateway=next((lease.gateway for lease in given.values() if lease.gateway), ""),
        allow_pxe=False,
        bmc=orders.has_bmc,
    )


def workflow_wanted(run: Run, part: Part, world: World) -> WorkflowWanted:
    """Return the Workflow of a part: a static Template and public values for it."""
    rules = world.classes.book().get(run.orders.machine_class)
    service = world.settings.service
    values = {
        "device_1": f"fleet-{run.machine}",
        "run": str(run.id),
        "machine": str(run.machine),
        "fleet_url": service.fleet_url,
        "fleet_ca": service.fleet_ca,
        "fleet_keys": service.fleet_keys(),
    }
    template = "attest"
    if part is Part.DISK:
        family = rules.family.value if rules else ""
        template = f"provision-{family}" if run.kind is IntentKind.PROVISION else "wipe"
        values |= _disk_values(run, world)
    return WorkflowWanted(run.id, run.machine, part, template, values)


def _disk_values(run: Run, world: World) -> dict[str, str]:
    rules, disk = world.classes.book().get(run.orders.machine_class), run.orders.disk
    image = rules.image if rules else None
    values = {
        "disk_serial": disk.serial if disk else "",
        "disk_wwn": disk.wwn if disk else "",
        "disk_size": str(rules.disk.min_size) if rules else "0",
        "erase": ":".join(filter(None, (rules.disk.erase, ",".join(rules.disk.fallback)))) if rules else "quick",
    }
    if run.kind is not IntentKind.PROVISION:
        extra = ",".join(d.serial for d in run.orders.extra_disks)
        return values | {"extra_serials": extra}
    return values | {
        "image_url": image.url if image else "",
        "image_sha256": image.sha256 if image else "",
        "image_size": str(image.size) if image else "",
        "image_key": image.signature_key if image else "",
        "family": rules.family.value if rules else "",
    }
