"""An OCI image as an archive of the image layout (OCI image specification 1.1), which a registry push takes as it is."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_lab.images.filetree import TREE_TIME

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class Layer:
    """One uncompressed layer: the machine that unpacks it has no time to spare and loopback has bandwidth."""

    path: Path
    digest: str
    size: int

    @classmethod
    def of(cls, path: Path) -> "Layer":
        """Describe a tar file."""
        with path.open("rb") as file:
            return cls(path, f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}", path.stat().st_size)


def write_archive(out: Path, name: str, layers: Sequence[Layer], config: dict[str, Any]) -> str:
    """Write the archive; `config` is the image's `config` object. Return the manifest's digest, `sha256:…`."""
    described = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
    }
    config_blob = _json(described)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(_CONFIG_TYPE, config_blob),
            "layers": [{"mediaType": _LAYER_TYPE, "digest": layer.digest, "size": layer.size} for layer in layers],
        }
    )
    entry = _descriptor(MANIFEST_TYPE, manifest) | {"annotations": {"org.opencontainers.image.ref.name": name}}
    index = _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]})
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", index)
        for blob in (config_blob, manifest):
            _add(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for layer in layers:
            info = _info(f"blobs/sha256/{layer.digest.removeprefix('sha256:')}", layer.size)
            with layer.path.open("rb") as file:
                archive.addfile(info, file)
    return str(entry["digest"])


def archive_digest(archive: Path) -> str:
    """The digest of the one manifest that an archive's index names."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        digest: str = json.load(index)["manifests"][0]["digest"]
    return digest


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, TREE_TIME
    return info


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    archive.addfile(_info(name, len(data)), io.BytesIO(data))
