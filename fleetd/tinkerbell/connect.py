"""Where the Kubernetes API is: a kubeconfig file, or the cluster that fleetd itself runs in."""

from pathlib import Path
from typing import Any

import kubernetes
import yaml

from fleetd.ports import RefusedError


def configuration(kubeconfig: Path | None) -> Any:
    """Return the client's configuration; None means the service account of the pod.

    Raises RefusedError when the file or the service account cannot be used.
    """
    found = kubernetes.client.Configuration()
    loaders: Any = kubernetes.config
    try:
        if kubeconfig is None:
            loaders.load_incluster_config(client_configuration=found)
        else:
            loaders.load_kube_config(config_file=str(kubeconfig), client_configuration=found)
    except (kubernetes.config.ConfigException, OSError, yaml.YAMLError) as error:
        raise RefusedError(f"no way to Kubernetes: {error}") from error
    found.retries = False  # retries are made where it is known what may be repeated
    found.connection_pool_maxsize = 8
    return found
