"""A NetBox for the nodes file alone: what an owner has before the first node, and a token of theirs."""

from typing import Any

from fleet_lab.services.netbox import NetBox

_SITES = """
from dcim.models import DeviceRole, DeviceType, Manufacturer, Rack, Site
from netbox_fleet.models import MachineClass
from users.models import Token, User

site, _ = Site.objects.get_or_create(name="Lab", slug="lab")
for number in range({racks}):
    Rack.objects.get_or_create(name=f"R{{number}}", site=site, defaults={{"u_height": 48}})
maker, _ = Manufacturer.objects.get_or_create(name="Acme", slug="acme")
DeviceType.objects.get_or_create(manufacturer=maker, model="Box", slug="box")
if not DeviceRole.objects.filter(slug="node").exists():
    DeviceRole.objects.create(name="Node", slug="node")
MachineClass.objects.get_or_create(slug="lab-alpine", defaults={{"family": "alpine-image", "installable": True}})
user, _ = User.objects.get_or_create(username="owner", defaults={{"is_superuser": True}})
token = Token(user=user)
token.save()
print(token.get_auth_header_prefix() + token.token)
"""


def prepare(netbox: NetBox, *, racks: int = 40) -> str:
    """Make site `lab`, its racks, role `node`, type `acme/box` and class `lab-alpine`; return the owner's token."""
    return netbox.shell(_SITES.format(racks=racks)).splitlines()[-1].split()[-1]


def a_node(number: int) -> dict[str, Any]:
    """Return the n-th node of a file: everything that a file may say of one."""
    high, low = divmod(number, 250)
    rack, unit = divmod(number, 40)
    return {
        "name": f"node-{number:05d}",
        "site": "lab",
        "rack": f"R{rack}",
        "position": unit + 1,
        "face": "front",
        "role": "node",
        "device_type": "acme/box",
        "class": "lab-alpine",
        "serial": f"SN{number:06d}",
        "disk_serial": f"disk{number:06d}",
        "firmware": "2.1",
        "interfaces": {
            "eth0": {
                "mac": f"52:54:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
                "addresses": [f"10.1.{high}.{low + 1}/16"],
            }
        },
        "bmc": {"address": f"10.2.{high}.{low + 1}", "secret": f"bmc-{number}"},
    }
