"""Pull an image by digest from an OCI registry (distribution specification 1.1), believing nothing but the digest."""

import gzip
import hashlib
import json
import re
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

_REFERENCE = re.compile(r"^(?P<host>[^/@]+)/(?P<name>[a-z0-9._/-]+)@(?P<digest>sha256:[0-9a-f]{64})$")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_LAYERS = {
    "application/vnd.oci.image.layer.v1.tar": False,
    "application/vnd.oci.image.layer.v1.tar+gzip": True,
}
_SMALL = 4 << 20
_BLOCK = 1 << 20


class PullError(RuntimeError):
    """The image cannot be had, or is not what its digest says."""


@dataclass(frozen=True)
class Reference:
    """HOST/NAME@sha256:DIGEST; a tag names no content and is refused."""

    host: str
    name: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read a reference.

        Raises:
            PullError: it is no reference by digest.
        """
        match = _REFERENCE.match(text)
        if match is None:
            raise PullError(f"{text} is not of the form HOST/NAME@sha256:DIGEST")
        return cls(match["host"], match["name"], match["digest"])


class Fetch(Protocol):
    """GET one URL of a registry."""

    def __call__(self, url: str, accept: str) -> IO[bytes]:
        """Return the body as a stream."""
        ...


def fetch_http(url: str, accept: str) -> IO[bytes]:
    """GET over plain HTTP: the registry of the lab is on loopback, and every byte is checked against its digest."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    answer: IO[bytes] = urllib.request.urlopen(request, timeout=60)
    return answer


def pull(reference: Reference, into: Path, fetch: Fetch = fetch_http) -> dict[str, Any]:
    """Unpack the image to `into/rootfs` and return its configuration (OCI image specification, `config`).

    Raises:
        PullError: a digest or size differs, or a media type is unknown.
        OSError: the registry does not answer.
    """
    manifest = _manifest(reference, reference.digest, fetch)
    if manifest.get("mediaType") == _INDEX or "manifests" in manifest:
        manifest = _manifest(reference, _for_this_platform(manifest), fetch)
    described = json.loads(_small(reference, manifest["config"]["digest"], "blobs", fetch))
    rootfs = into / "rootfs"
    rootfs.mkdir(parents=True)
    for layer in manifest["layers"]:
        _unpack(reference, layer, rootfs, fetch)
    if any(rootfs.rglob(".wh.*")):
        raise PullError("layers with whiteouts are not supported")
    config: dict[str, Any] = described.get("config") or {}
    return config


def _manifest(reference: Reference, digest: str, fetch: Fetch) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(_small(reference, digest, "manifests", fetch))
    return parsed


def _for_this_platform(index: dict[str, Any]) -> str:
    for entry in index["manifests"]:
        platform = entry.get("platform", {})
        if (platform.get("os"), platform.get("architecture")) == ("linux", "amd64"):
            digest: str = entry["digest"]
            return digest
    raise PullError("the image has no linux/amd64 variant")


def _small(reference: Reference, digest: str, kind: str, fetch: Fetch) -> bytes:
    url = f"http://{reference.host}/v2/{reference.name}/{kind}/{digest}"
    with fetch(url, f"{_MANIFEST}, {_INDEX}") as body:
        data = body.read(_SMALL + 1)
    if len(data) > _SMALL:
        raise PullError(f"{digest} is larger than {_SMALL} bytes")
    _demand(digest, hashlib.sha256(data).hexdigest())
    return data


def _demand(digest: str, found: str) -> None:
    if digest != f"sha256:{found}":
        raise PullError(f"the registry sent sha256:{found} for {digest}")


class _Hashing:
    """A stream that remembers the digest of all that was read from it."""

    def __init__(self, source: IO[bytes], limit: int) -> None:
        self._source = source
        self._left = limit
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(_BLOCK if size < 0 else size)
        self._left -= len(data)
        if self._left < 0:
            raise PullError("a layer is larger than its manifest says")
        self.digest.update(data)
        return data


def _unpack(reference: Reference, layer: dict[str, Any], rootfs: Path, fetch: Fetch) -> None:
    if layer["mediaType"] not in _LAYERS:
        raise PullError(f"layers of type {layer['mediaType']} are not supported")
    url = f"http://{reference.host}/v2/{reference.name}/blobs/{layer['digest']}"
    with fetch(url, "*/*") as body:
        hashed = _Hashing(body, int(layer["size"]))
        plain: Any = gzip.GzipFile(fileobj=hashed) if _LAYERS[layer["mediaType"]] else hashed  # type: ignore[call-overload]
        with subprocess.Popen(["tar", "-x", "-C", str(rootfs), "-f", "-"], stdin=subprocess.PIPE) as tar:
            assert tar.stdin is not None
            while block := plain.read(_BLOCK):
                tar.stdin.write(block)
            while hashed.read(_BLOCK):
                pass
            tar.stdin.close()
            if tar.wait():
                raise PullError(f"layer {layer['digest']} cannot be unpacked")
    _demand(layer["digest"], hashed.digest.hexdigest())
