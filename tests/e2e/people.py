"""The people of a NetBox: who may see and do what, each with a password."""

import json
import secrets
from dataclasses import dataclass

from fleet_lab.services.netbox import NetBox

_RECORDS = (
    "machine",
    "machineclass",
    "endorsementkey",
    "run",
    "attestation",
    "devicecertificate",
    "bootcheck",
    "baseline",
    "statement",
)
_KEEPS = ["view", "add", "change", "delete"]
_VIEWS = {f"netbox_fleet.{name}": ["view"] for name in _RECORDS}
_PLACES = {f"dcim.{name}": ["view"] for name in ("site", "manufacturer", "devicetype", "devicerole")}
_DEVICES = {f"dcim.{name}": _KEEPS for name in ("device", "interface", "macaddress")} | {"ipam.ipaddress": _KEEPS}
_ASKS = ["provision", "attest", "wipe", "cancel"]

MAY = {
    "owner": {
        **_VIEWS,
        **_PLACES,
        **_DEVICES,
        "netbox_fleet.machine": [*_KEEPS, *_ASKS, "approve", "force", "release", "declare_lost", "vouch"],
        "netbox_fleet.endorsementkey": [*_KEEPS, "approve"],
        "netbox_fleet.baseline": ["view", "accept"],
    },
    "operator": {**_VIEWS, **_PLACES, "dcim.device": ["view"], "netbox_fleet.machine": ["view", *_ASKS]},
    "viewer": {**_VIEWS, **_PLACES, "dcim.device": ["view"]},
    "stranger": {},
}
"""The actions that each may take on records of each kind."""

_MAKE = """
import json
from core.models import ObjectType
from users.models import ObjectPermission, User

for name, told in json.loads({people!r}).items():
    user = User.objects.create_user(username=name, password=told["password"])
    for kind, actions in told["may"].items():
        app, model = kind.split(".")
        permission = ObjectPermission.objects.create(name=f"{{name}}: {{kind}}", actions=actions)
        permission.object_types.add(ObjectType.objects.get(app_label=app, model=model))
        permission.users.add(user)
"""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with an account."""

    name: str
    password: str


def make_people(netbox: NetBox) -> dict[str, Person]:
    """Make an account for each of `MAY` in a NetBox that has none of them, and return them by name."""
    people = {name: Person(name, secrets.token_urlsafe(12)) for name in MAY}
    told = {name: {"password": person.password, "may": MAY[name]} for name, person in people.items()}
    netbox.shell(_MAKE.format(people=json.dumps(told)))
    return people
