"""Records for tests: each builder makes what it needs and says only what matters."""

import itertools
import uuid
from typing import Any

from core.models import ObjectType
from dcim.models import Device, DeviceRole, DeviceType, Manufacturer, Site
from users.models import ObjectPermission, User

from netbox_fleet.models import EndorsementKey, Machine, MachineClass

_numbers = itertools.count(1)


def a_class(slug: str = "lab-alpine", **fields: Any) -> MachineClass:
    values = {"family": "alpine-image", "installable": True, **fields}
    return MachineClass.objects.get_or_create(slug=slug, defaults=values)[0]


def a_device(name: str | None = None, **fields: Any) -> Device:
    site = Site.objects.get_or_create(name="Lab", slug="lab")[0]
    maker = Manufacturer.objects.get_or_create(name="Acme", slug="acme")[0]
    kind = DeviceType.objects.get_or_create(manufacturer=maker, model="Box", slug="box")[0]
    role = DeviceRole.objects.filter(slug="node").first() or DeviceRole.objects.create(name="Node", slug="node")
    values = {"site": site, "device_type": kind, "role": role, "status": "planned", **fields}
    return Device.objects.create(name=name or f"node-{next(_numbers)}", **values)


def a_machine(name: str | None = None, device: Device | None = None, **fields: Any) -> Machine:
    device = device or a_device(name)
    values = {"disk_serial": f"lab{next(_numbers):04}", "machine_class": a_class(), **fields}
    return Machine.objects.create(device=device, **values)


def a_key(machine: Machine | None = None, **fields: Any) -> EndorsementKey:
    return EndorsementKey.objects.create(machine=machine, public_hash=uuid.uuid4().hex * 2, **fields)


def a_user(*permissions: str, name: str | None = None, constraints: Any = None, superuser: bool = False) -> User:
    """A user with object permissions given as `action_model` of the plugin or `app.action_model`."""
    user = User.objects.create_user(username=name or f"user{next(_numbers)}", is_superuser=superuser)
    grant(user, *permissions, constraints=constraints)
    return user


def grant(user: User, *permissions: str, constraints: Any = None) -> None:
    for permission in permissions:
        app, _, codename = permission.rpartition(".")
        action, _, model = codename.rpartition("_")
        row = ObjectPermission.objects.create(
            name=f"{user.username} {permission} {next(_numbers)}", actions=[action], constraints=constraints
        )
        row.object_types.add(ObjectType.objects.get(app_label=app or "netbox_fleet", model=model))
        row.users.add(user)


def again(user: User) -> User:
    """The user read afresh: NetBox keeps an object's permissions on the instance."""
    return User.objects.get(pk=user.pk)
