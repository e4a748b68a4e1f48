"""The owner's side of the walk: what a person would click in NetBox, done through its REST interface."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from fleet_lab.places import LabError


@dataclass(frozen=True, slots=True)
class Node:
    """A machine as its owner knows it before it is ever switched on."""

    name: str
    machine_class: str
    serial: str
    disk_serial: str
    mac: str
    address: str
    bmc_address: str = ""
    bmc_secret: str = ""


@dataclass
class Owner:
    """A person with a NetBox account, in code; `token` is the account's API token."""

    url: str
    token: str
    session: requests.Session

    @classmethod
    def of(cls, url: str, token: str) -> "Owner":
        """Return an owner who speaks to the NetBox at `url`."""
        session = requests.Session()
        session.headers.update({"Authorization": f"Bearer {token}", "Accept": "application/json"})
        # A server closes a connection that was idle when it likes; a read is simply made again, a write has its own.
        session.headers["Connection"] = "close"
        session.mount("http://", HTTPAdapter(max_retries=Retry(3, backoff_factor=0.2, allowed_methods={"GET"})))
        return cls(url.rstrip("/"), token, session)

    def get(self, path: str, **query: Any) -> Any:
        """Read one object or list. Raises LabError with NetBox's answer."""
        return self._call("GET", path, params=query)

    def post(self, path: str, body: Any) -> Any:
        """Create or act. Raises LabError with NetBox's answer."""
        return self._call("POST", path, json=body)

    def patch(self, path: str, body: Any) -> Any:
        """Change. Raises LabError with NetBox's answer."""
        return self._call("PATCH", path, json=body)

    def only(self, path: str, **query: Any) -> Any | None:
        """Return the one object that matches, or None."""
        found = self.get(path, limit=2, **query)["results"]
        return found[0] if found else None

    def ensure(self, path: str, match: dict[str, Any], body: dict[str, Any]) -> Any:
        """Return the object that matches, created when there is none."""
        return self.only(path, **match) or self.post(path, {**match, **body})

    def enter(self, nodes: list[Node]) -> list[int]:
        """Enter a site, a device per node with interface, MAC and address, and its Machine; return the Machine ids."""
        site = self.ensure("dcim/sites/", {"slug": "lab"}, {"name": "Lab"})["id"]
        maker = self.ensure("dcim/manufacturers/", {"slug": "fleet-lab"}, {"name": "Fleet lab"})["id"]
        kind = self.ensure(
            "dcim/device-types/", {"slug": "lab-machine"}, {"model": "Lab machine", "manufacturer": maker}
        )["id"]
        role = self.ensure("dcim/device-roles/", {"slug": "node"}, {"name": "Node", "color": "2196f3"})["id"]
        self.ensure("ipam/prefixes/", {"prefix": "127.64.0.0/16"}, {"status": "active"})
        return [self._enter_one(node, site, kind, role) for node in nodes]

    def _enter_one(self, node: Node, site: int, kind: int, role: int) -> int:
        known = self.only("plugins/fleet/machines/", node_name=node.name)
        if known:
            return int(known["id"])
        device = self.ensure(
            "dcim/devices/",
            {"name": node.name},
            {"site": site, "device_type": kind, "role": role, "serial": node.serial, "status": "planned"},
        )["id"]
        port = self.ensure(
            "dcim/interfaces/", {"device_id": device, "name": "eth0"}, {"device": device, "type": "1000base-t"}
        )["id"]
        mac = self.post(
            "dcim/mac-addresses/",
            {"mac_address": node.mac, "assigned_object_type": "dcim.interface", "assigned_object_id": port},
        )
        self.patch(f"dcim/interfaces/{port}/", {"primary_mac_address": mac["id"]})
        address = self.post(
            "ipam/ip-addresses/",
            {"address": f"{node.address}/16", "assigned_object_type": "dcim.interface", "assigned_object_id": port},
        )
        self.patch(f"dcim/devices/{device}/", {"primary_ip4": address["id"]})
        machine_class = self.only("plugins/fleet/machine-classes/", slug=node.machine_class)
        if machine_class is None:
            raise LabError(f"NetBox knows no class {node.machine_class}: has fleetd reported its classes?")
        machine = self.post(
            "plugins/fleet/machines/",
            {
                "device": device,
                "node_name": node.name,
                "machine_class": machine_class["id"],
                "disk_serial": node.disk_serial,
                "bmc_address": node.bmc_address,
                "bmc_secret": node.bmc_secret,
            },
        )
        return int(machine["id"])

    def ask(self, machine: int, intent: str, disk_serial: str, reason: str = "") -> Any:
        """Set desired_action through the plugin's action, with the typed serial."""
        return self.post(
            f"plugins/fleet/machines/{machine}/{intent}/", {"confirm_serial": disk_serial, "reason": reason}
        )

    def machine(self, machine: int) -> Any:
        """Read one Machine."""
        return self.get(f"plugins/fleet/machines/{machine}/")

    def pending_keys(self, machine: int) -> list[Any]:
        """Return the endorsement keys that wait for a decision about this machine."""
        found = self.get("plugins/fleet/endorsement-keys/", status="pending", machine_id=machine)
        return list(found["results"])

    def approve(self, key: int, machine: int) -> Any:
        """Approve an endorsement key for a machine."""
        return self.post(f"plugins/fleet/endorsement-keys/{key}/approve/", {"machine": machine})

    def follow(self, machine: int, pause: Callable[[], None]) -> Iterator[Any]:
        """Yield the Machine each time that something about it changed; never ends by itself."""
        last = None
        while True:
            seen = self.machine(machine)
            shown = {
                key: seen.get(key) for key in ("phase", "percent", "message", "findings", "last_check", "check_result")
            }
            if shown != last:
                last = shown
                yield seen
            pause()

    def _call(self, method: str, path: str, **how: Any) -> Any:
        answer = self.session.request(method, f"{self.url}/api/{path}", timeout=60, **how)
        if answer.status_code >= 400:
            raise LabError(f"NetBox answered {answer.status_code} to {method} {path}: {answer.text[:600]}")
        return answer.json() if answer.content else None
