"""Tinkerbell and Rufio: the way to Kubernetes, their kinds of objects, and what fleetd may do with them."""

from fleetd.config import Settings
from fleetd.doctor.notes import Notes, broken, good, short
from fleetd.ports import OutageError, RefusedError
from fleetd.tinkerbell.api import (
    HARDWARE,
    JOBS,
    MACHINES,
    TEMPLATES,
    WORKFLOWS,
    Api,
    DeniedError,
    NotServedError,
)
from fleetd.tinkerbell.connect import configuration

_KINDS = {"tinkerbell": (HARDWARE, TEMPLATES, WORKFLOWS), "rufio": (MACHINES, JOBS)}
_NOBODY = "fleet/machine=0"
"""A label that nothing carries: what is asked for is the answer, not objects."""


def cluster(settings: Settings) -> Notes:
    """List each kind of object that fleetd handles."""
    wanted = settings.tinkerbell
    try:
        api = Api(configuration(wanted.kubeconfig), wanted.namespace, min(wanted.timeout, 5.0), sleep=lambda _: None)
    except RefusedError as error:
        yield broken(
            "tinkerbell", short(error), "Set tinkerbell.kubeconfig to a file that names the cluster of Tinkerbell."
        )
        return
    for part, kinds in _KINDS.items():
        missing = []
        for kind in kinds:
            try:
                api.labelled(kind, _NOBODY)
            except NotServedError:
                missing.append(kind.plural)
            except (DeniedError, RefusedError) as error:
                yield broken(part, f"{kind.plural}: {short(error)}", "Apply deploy/kubernetes/rbac.yaml for fleetd.")
                break
            except OutageError as error:
                yield broken(
                    part, short(error), "Check that the cluster runs, and that tinkerbell.kubeconfig has its address."
                )
                return
        else:
            if missing:
                yield broken(
                    part,
                    f"the cluster knows no {', '.join(missing)} of {kinds[0].group}",
                    "Install Tinkerbell with Rufio (its Helm chart brings both) in this cluster.",
                )
            else:
                yield good(part, f"answers in namespace {wanted.namespace}")
