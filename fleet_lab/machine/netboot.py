"""Decides netboot as Tinkerbell does: by the Hardware that carries the machine's MAC, and its `allowPXE`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet_lab.machine.machine import NetbootOffer

type ListHardware = Callable[[], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class HardwareNetboot:
    """Netboot by Hardware objects, read anew at every boot."""

    list_hardware: ListHardware

    def offer(self, mac: str) -> NetbootOffer | None:
        """Return the offer of the first Hardware with this MAC; None when there is none or it forbids netboot."""
        for hardware in self.list_hardware():
            spec = hardware.get("spec") or {}
            for interface in spec.get("interfaces") or ():
                if (interface.get("dhcp") or {}).get("mac", "").lower() == mac.lower():
                    allowed = bool((interface.get("netboot") or {}).get("allowPXE"))
                    return NetbootOffer(spec.get("agentID") or mac.lower()) if allowed else None
        return None


def hardware_lister(kubeconfig: str, namespace: str) -> ListHardware:
    """Return a function that lists the Hardware of a namespace through the Kubernetes API of a kubeconfig file."""
    import kubernetes

    library: Any = kubernetes
    api = library.client.CustomObjectsApi(library.config.new_client_from_config(kubeconfig))

    def list_hardware() -> Iterable[Mapping[str, Any]]:
        listed: dict[str, list[dict[str, Any]]] = api.list_namespaced_custom_object(
            "tinkerbell.org", "v1alpha1", namespace, "hardware", _request_timeout=10
        )
        return listed["items"]

    return list_hardware
