"""A Talos machine configuration: the cluster's secrets bundle going in, the class's patches, and what Talos would refuse.

Source: Talos's secrets bundle, document kinds, strategic merge and validation, as of 1.14 (multi-document form).
"""

import base64
import copy
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from fleetd.seeds.templates import SeedError

REDACTED = "(secret)"
_PAIRS = ("os", "k8s", "k8saggregator", "etcd")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "cluster": ("id", "secret"),
    "secrets": ("bootstraptoken", "secretboxencryptionsecret"),
    "trustdinfo": ("token",),
}
_REPLACED = frozenset({"podSubnets", "serviceSubnets"})
"""Lists that a patch replaces; every other list grows."""
_CONTROL_PLANE_KEYS = ("KubeAPIServerCAConfig", "KubeAggregatorCAConfig")


def bundle(name: str, text: str) -> dict[str, Any]:
    """Return a secrets bundle as `talosctl gen secrets` writes it, with `pem`: certificates and keys out of base64.

    A bundle for workers may lack the keys of its CAs. Raises SeedError, which quotes nothing of the bundle.
    """
    try:
        held = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SeedError(f"secret {name}: not valid YAML ({type(error).__name__})") from None
    if not isinstance(held, dict) or not isinstance(held.get("certs"), dict):
        raise SeedError(f"secret {name}: not a Talos secrets bundle (it has no certs)")
    for section, fields in _FIELDS.items():
        if not isinstance(held.get(section), dict):
            raise SeedError(f"secret {name}: not a Talos secrets bundle (it has no {section})")
        for field in fields[:1]:
            if not isinstance(held[section].get(field), str):
                raise SeedError(f"secret {name}: {section}.{field} is missing")
    return {**held, "pem": {pair: _decoded(name, pair, parts) for pair, parts in held["certs"].items()}}


def redacted_bundle() -> dict[str, Any]:
    """Return a bundle of the same shape that holds nothing."""
    pair = {"crt": REDACTED, "key": REDACTED}
    certs = {**dict.fromkeys(_PAIRS, pair), "k8sserviceaccount": {"key": REDACTED}}
    sections = {section: dict.fromkeys(fields, REDACTED) for section, fields in _FIELDS.items()}
    return {**sections, "certs": certs, "pem": certs}


def parsed(name: str, text: str) -> list[dict[str, Any]]:
    """Return the documents of a rendered template. Raises SeedError."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may be a secret.
        raise SeedError(f"{name}: not valid YAML ({type(error).__name__})") from None
    if not all(isinstance(document, dict) for document in documents):
        raise SeedError(f"{name}: a document is no mapping")
    return documents


def patched(documents: Iterable[Mapping[str, Any]], patches: Any) -> list[dict[str, Any]]:
    """Return the documents with patches merged in: by kind and name, as Talos's strategic merge does.

    Mappings merge, other values replace, lists grow (subnets are replaced), `$patch: delete` removes. Raises SeedError.
    """
    result = {_identity(document): copy.deepcopy(dict(document)) for document in documents}
    if not isinstance(patches, list) or not all(isinstance(patch, dict) for patch in patches):
        raise SeedError("values.patches: must be a list of Talos documents")
    for patch in patches:
        which = _identity(patch)
        if patch.get("$patch") == "delete":
            result.pop(which, None)
        else:
            result[which] = _merged(result.get(which, {}), patch)
    return list(result.values())


def check(documents: Iterable[Mapping[str, Any]]) -> None:
    """Refuse what Talos itself would refuse, or what gives a worker more than it may hold. Raises SeedError."""
    machines = [document for document in documents if "kind" not in document]
    others = [document for document in documents if "kind" in document]
    if len(machines) != 1:
        raise SeedError(f"a machine configuration has one v1alpha1 document; here are {len(machines)}")
    for document in others:
        if document.get("apiVersion") != "v1alpha1":
            raise SeedError(f"{document['kind']}: apiVersion is not v1alpha1")
    machine, cluster = _section(machines[0], "machine"), _section(machines[0], "cluster")
    kind = machine.get("type")
    if kind not in {"worker", "controlplane"}:
        raise SeedError("machine.type: must be worker or controlplane")
    for at, section in (("machine.token", machine), ("cluster.token", cluster)):
        if not section.get("token"):
            raise SeedError(f"{at}: is missing")
    if not (machine.get("ca") or {}).get("crt"):
        raise SeedError("machine.ca.crt: is missing")
    by_kind = {document["kind"]: document for document in others}
    if not str(by_kind.get("KubeClusterConfig", {}).get("endpoint", "")).startswith("https://"):
        raise SeedError("KubeClusterConfig.endpoint: must be an https address")
    _check_keys(kind, machine, cluster, by_kind)


def dumped(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the documents as one YAML stream; equal documents give equal bytes."""
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=False, width=10**6, default_flow_style=False)
    return str(text).encode()


def _check_keys(
    kind: str, machine: Mapping[str, Any], cluster: Mapping[str, Any], by_kind: Mapping[str, Mapping[str, Any]]
) -> None:
    held = {
        "machine.ca.key": bool((machine.get("ca") or {}).get("key")),
        "cluster.etcd.ca.key": bool(((cluster.get("etcd") or {}).get("ca") or {}).get("key")),
        **{
            f"{name}.issuingCA.key": bool((by_kind.get(name, {}).get("issuingCA") or {}).get("key"))
            for name in _CONTROL_PLANE_KEYS
        },
        "KubeServiceAccountConfig.issuer.privateKey": bool(
            (by_kind.get("KubeServiceAccountConfig", {}).get("issuer") or {}).get("privateKey")
        ),
    }
    if kind == "worker":
        wrong = [at for at, there in held.items() if there]
        if wrong:
            raise SeedError(f"{wrong[0]}: a worker must not hold a key of the cluster's CAs")
        if not by_kind.get("KubeAPIServerCAConfig", {}).get("acceptedCAs"):
            raise SeedError("KubeAPIServerCAConfig.acceptedCAs: is missing")
        return
    missing = [at for at, there in held.items() if not there]
    if missing:
        raise SeedError(f"{missing[0]}: a control plane needs it")


def _identity(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document.get("kind", "")), str(document.get("name", ""))


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise SeedError(f"{name}: is missing")
    return found


def _merged(old: Any, new: Any, key: str = "") -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        result = dict(old)
        for name, value in new.items():
            if isinstance(value, dict) and value.get("$patch") == "delete":
                result.pop(name, None)
            else:
                result[name] = _merged(old.get(name), value, name)
        return result
    if isinstance(old, list) and isinstance(new, list) and key not in _REPLACED:
        return [*old, *new]
    return copy.deepcopy(new)


def _decoded(name: str, pair: str, parts: Any) -> dict[str, str]:
    try:
        return {part: base64.b64decode(text or "", validate=True).decode() for part, text in parts.items()}
    except (AttributeError, TypeError, ValueError):
        raise SeedError(f"secret {name}: certs.{pair} is not base64 of PEM") from None
