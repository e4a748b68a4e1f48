"""What clients ask before anything else: version, groups and resources."""

from typing import Any

from fleet_lab.tinkerbell.kinds import BMC, KINDS, TINKERBELL, Kind

_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
_VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0-fleet-lab", "platform": "linux/amd64"}


def document(path: str) -> dict[str, Any] | None:
    """Return the discovery document at a path, or None."""
    match path.strip("/").split("/"):
        case ["version"]:
            return dict(_VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]}
        case ["apis"]:
            groups = [_group(name) for name in (TINKERBELL, BMC)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["api", "v1"]:
            return _resources("", "v1")
        case ["apis", ("tinkerbell.org" | "bmc.tinkerbell.org") as group, "v1alpha1"]:
            return _resources(group, "v1alpha1")
    return None


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1alpha1", "version": "v1alpha1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(group: str, version: str) -> dict[str, Any]:
    listed = [entry for kind in KINDS if kind.group == group for entry in _entries(kind)]
    joined = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": joined, "resources": listed}


def _entries(kind: Kind) -> list[dict[str, Any]]:
    entry = {"name": kind.plural, "singularName": kind.singular, "namespaced": True, "kind": kind.name}
    entry |= {"verbs": _VERBS, "shortNames": list(kind.short)}
    if not kind.has_status:
        return [entry]
    inner = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": True, "kind": kind.name}
    return [entry, inner | {"verbs": ["get", "patch", "update"]}]
