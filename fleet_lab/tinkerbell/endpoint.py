"""Which Tinkerbell a lab uses: the stand-in in a process of its own, or a real one that the environment names."""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from sys import executable
from typing import Any, Final

from fleet_lab.places import CHECKOUT, LabError, Places, free_port
from fleet_lab.services.process import Child

KUBECONFIG: Final = "FLEET_LAB_KUBECONFIG"
GRPC: Final = "FLEET_LAB_TINK_GRPC"


@dataclass
class Tinkerbell:
    """A Kubernetes API that Tinkerbell and Rufio watch, and the agents' gRPC service (host:port)."""

    kubeconfig: Path
    grpc: str
    child: Child | None = None
    namespace: str = "tinkerbell"

    def put_secret(self, name: str, values: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Write a Secret as an owner would: complete first, then labelled."""
        api = self._client().CoreV1Api(self._connection())
        body: dict[str, Any] = {"metadata": {"name": name}, "stringData": dict(values), "type": "Opaque"}
        try:
            api.create_namespaced_secret(self.namespace, body)
        except self._client().exceptions.ApiException as error:
            if error.status != 409:
                raise
            api.patch_namespaced_secret(name, self.namespace, body)
        api.patch_namespaced_secret(name, self.namespace, {"metadata": {"labels": dict(labels)}})

    def objects(self, group: str, plural: str) -> list[dict[str, Any]]:
        """List the objects of a kind in the namespace."""
        api = self._client().CustomObjectsApi(self._connection())
        return list(api.list_namespaced_custom_object(group, "v1alpha1", self.namespace, plural)["items"])

    def _client(self) -> Any:
        import kubernetes

        library: Any = kubernetes
        return library.client

    def _connection(self) -> Any:
        import kubernetes

        library: Any = kubernetes
        return library.config.new_client_from_config(str(self.kubeconfig))


def real_tinkerbell() -> Tinkerbell | None:
    """Return the Tinkerbell that the environment names, or None. Raises LabError when only half of it is named."""
    kubeconfig, grpc = os.environ.get(KUBECONFIG), os.environ.get(GRPC)
    if not kubeconfig and not grpc:
        return None
    if not kubeconfig or not grpc:
        raise LabError(f"set both {KUBECONFIG} (a kubeconfig file) and {GRPC} (host:port), or neither")
    return Tinkerbell(Path(kubeconfig), grpc)


def start_standin(places: Places, stack: ExitStack, *options: str) -> Tinkerbell:
    """Start the stand-in as a process of its own; started again, it has the same ports and objects.

    It stops with the stack.
    """
    folder, log = places.state / "tinkerbell", places.state / "tinkerbell.log"
    folder.mkdir(parents=True, exist_ok=True)
    begun = log.stat().st_size if log.exists() else 0
    ports = ["--kube-port", str(free_port()), "--grpc-port", str(free_port())]
    command = [executable, "-m", "fleet_lab.tinkerbell", "--folder", str(folder), "--keep", *ports, *options]
    child = Child("Tinkerbell stand-in", command, log, {"PYTHONPATH": str(CHECKOUT)}).start()
    stack.callback(child.stop)

    def ready() -> dict[str, Any] | None:
        for line in log.read_text()[begun:].splitlines():
            if line.startswith('{"ready"'):
                found: dict[str, Any] = json.loads(line)
                return found
        return None

    child.wait_until(lambda: ready() is not None)
    told = ready() or {}
    return Tinkerbell(Path(told["kubeconfig"]), told["grpc"], child)
