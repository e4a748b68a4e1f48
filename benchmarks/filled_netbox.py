"""A NetBox full of machines: rows made in bulk, one of each kind a machine, the change log as long as if each had been entered."""

from fleet_lab.services.netbox import NetBox

_FILL = """
import uuid
from django.utils import timezone
from core.models import ObjectChange, ObjectType
from dcim.models import Device, DeviceRole, DeviceType, Interface, MACAddress, Manufacturer, Site
from ipam.models import IPAddress, Prefix
from users.models import Token, User
from netbox_fleet import models as fleet

COUNT = {count}
now = timezone.now()
site = Site.objects.create(name="Bench", slug="bench")
maker = Manufacturer.objects.create(name="Acme", slug="acme")
kind = DeviceType.objects.create(manufacturer=maker, model="Box", slug="box")
role = DeviceRole.objects.create(name="Node", slug="node")
made = fleet.MachineClass.objects.create(slug="bench", family="alpine-image", installable=True)
Prefix.objects.create(prefix="10.0.0.0/8", custom_field_data={{"gateway": "10.0.0.1"}})
devices = Device.objects.bulk_create(
    [Device(name=f"node-{{n:05}}", site=site, device_type=kind, role=role, status="active", serial=f"SN{{n}}") for n in range(COUNT)], 1000
)
ports = Interface.objects.bulk_create(
    [Interface(device=device, name="eth0", type="1000base-t", _site=site) for device in devices], 1000
)
MACAddress.objects.bulk_create(
    [MACAddress(mac_address=f"52:54:00:{{n >> 16:02x}}:{{n >> 8 & 255:02x}}:{{n & 255:02x}}", assigned_object=port) for n, port in enumerate(ports)], 1000
)
IPAddress.objects.bulk_create(
    [IPAddress(address=f"10.{{n >> 16}}.{{n >> 8 & 255}}.{{n & 255}}/8", assigned_object=port, status="active") for n, port in enumerate(ports)], 1000
)
days = {{(now - timezone.timedelta(days=back)).date().isoformat(): 0xFFFFFF for back in range(30)}}
machines = fleet.Machine.objects.bulk_create(
    [
        fleet.Machine(
            device=device, node_name=device.name, machine_class=made, disk_serial=f"disk{{n}}", phase="active", check_result="ok",
            last_check=now, last_seen=now, phase_since=now, check_days=days, message="The installed system proved itself.",
        )
        for n, device in enumerate(devices)
    ], 1000
)
words = [uuid.uuid4().hex for _ in machines]
pairs = list(zip(machines, words))
fleet.EndorsementKey.objects.bulk_create(
    [fleet.EndorsementKey(machine=m, public_hash=w * 2, status="approved", decided_by="anna", decided_at=now) for m, w in pairs], 1000
)
runs = fleet.Run.objects.bulk_create(
    [fleet.Run(run_id=uuid.uuid4(), machine=m, machine_name=m.node_name, kind="provision", state="succeeded", started=now, ended=now) for m in machines], 1000
)
fleet.Attestation.objects.bulk_create(
    [fleet.Attestation(attestation_id=uuid.uuid4(), machine=m, machine_name=m.node_name, run=r, passed=True, time=now) for m, r in zip(machines, runs)], 1000
)
fleet.DeviceCertificate.objects.bulk_create(
    [fleet.DeviceCertificate(machine=m, machine_name=m.node_name, kind="ldevid", serial=w, fingerprint=w * 2, not_before=now, not_after=now) for m, w in pairs], 1000
)
fleet.BootCheck.objects.bulk_create([fleet.BootCheck(machine=m, time=now, result="ok") for m in machines], 1000)
fleet.Baseline.objects.bulk_create([fleet.Baseline(machine=m, digest=w, state="accepted", time=now) for m, w in pairs], 1000)
fleet.Statement.objects.bulk_create(
    [fleet.Statement(statement_id=uuid.uuid4(), machine=m, machine_name=m.node_name, kind="release", by="anna", reason="x", time=now, state="taken") for m in machines], 1000
)
owner = User.objects.create(username="owner", is_superuser=True)
owner.set_password({password!r})
owner.save()
type_ = ObjectType.objects.get_for_model(fleet.Machine)
ObjectChange.objects.bulk_create(
    [ObjectChange(user=owner, user_name="owner", request_id=uuid.uuid4(), action="create", changed_object_type=type_, changed_object_id=m.pk, object_repr=m.node_name) for m in machines], 1000
)
ObjectChange.objects.update(time=now - timezone.timedelta(hours=1))
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
print("MACHINES", machines[0].pk)
"""


def filled(netbox: NetBox, count: int, password: str) -> int:
    """Make machines and a superuser `owner` with the password; return the id of the first machine."""
    printed = netbox.shell(_FILL.format(count=count, password=password))
    return next(int(line.split()[1]) for line in printed.splitlines() if line.startswith("MACHINES "))
