"""A Talos secrets bundle of the shape that `talosctl gen secrets` writes, with nothing secret in it."""

import base64
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[1].parent / "shared" / "talos" / "config.schema.json"
VALUES = {"cluster": "lab", "endpoint": "https://k8s.example.org:6443", "kubernetes": "1.36.1", "dns": ["192.0.2.53"]}


def pem(kind, name):
    body = base64.b64encode(f"{kind} of {name}".encode()).decode()
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"


def encoded(kind, name):
    return base64.b64encode(pem(kind, name).encode()).decode()


def a_bundle():
    """Return the bundle; every key's PEM says CA KEY."""
    pairs = {
        name: {"crt": encoded("CERTIFICATE", name), "key": encoded("CA KEY", name)}
        for name in ("etcd", "k8s", "k8saggregator", "os")
    }
    return {
        "cluster": {"id": base64.b64encode(b"i" * 32).decode(), "secret": base64.b64encode(b"s" * 32).decode()},
        "secrets": {
            "bootstraptoken": "abcdef.0123456789abcdef",
            "secretboxencryptionsecret": base64.b64encode(b"b" * 32).decode(),
        },
        "trustdinfo": {"token": "ghijkl.0123456789abcdef"},
        "certs": {**pairs, "k8sserviceaccount": {"key": encoded("CA KEY", "k8sserviceaccount")}},
    }
