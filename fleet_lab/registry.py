"""Serves what machines download: action images by digest (OCI distribution API, read-only) and disk images."""

import contextlib
import json
import re
import tarfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from fleet_lab.images.oci import INDEX_TYPE, MANIFEST_TYPE

_OCI_PATH = re.compile(r"^/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs)/(?P<digest>sha256:[0-9a-f]{64})$")
_RANGE = re.compile(r"^bytes=(\d+)-(\d*)$")


@dataclass(frozen=True, slots=True)
class _Blob:
    """A stretch of a file, with its media type."""

    file: Path
    offset: int
    size: int
    media_type: str


def _blobs_of(archive: Path) -> dict[str, _Blob]:
    """The blobs of an OCI archive by digest, read in place: nothing is unpacked."""
    blobs: dict[str, _Blob] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name.startswith("blobs/sha256/"):
                digest = "sha256:" + member.name.rsplit("/", 1)[1]
                kind = _media_type(tar, member)
                blobs[digest] = _Blob(archive, member.offset_data, member.size, kind)
    return blobs


def _media_type(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    if member.size < 1 << 20:
        content = tar.extractfile(member)
        assert content is not None
        with contextlib.suppress(ValueError):
            kind = json.load(content).get("mediaType")
            if kind in {MANIFEST_TYPE, INDEX_TYPE}:
                return str(kind)
    return "application/octet-stream"


class ImageServer:
    """An HTTP server on loopback, plain: who downloads checks digests.

    `GET /v2/NAME/manifests/DIGEST`, `GET /v2/NAME/blobs/DIGEST`, `GET /images/NAME`; HEAD and Range work everywhere.
    """

    def __init__(self, archives: Iterable[Path], images: Mapping[str, Path], port: int = 0) -> None:
        self._blobs: dict[str, _Blob] = {}
        for archive in archives:
            self._blobs |= _blobs_of(archive)
        self._images = dict(images)
        handler = type("Handler", (_Handler,), {"find": staticmethod(self._find)})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="images", daemon=True)
        self._thread.start()

    def add_image(self, name: str, file: Path) -> None:
        """Serve one more file as an image."""
        self._images[name] = file

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _find(self, path: str) -> _Blob | None:
        match = _OCI_PATH.match(path)
        if match is not None:
            found = self._blobs.get(match["digest"])
            wants_manifest = match["kind"] == "manifests"
            is_manifest = found is not None and found.media_type in {MANIFEST_TYPE, INDEX_TYPE}
            return found if wants_manifest == is_manifest else None
        file = self._images.get(path.removeprefix("/images/")) if path.startswith("/images/") else None
        return None if file is None else _Blob(file, 0, file.stat().st_size, "application/octet-stream")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @staticmethod
    def find(path: str) -> _Blob | None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def _answer(self, *, with_body: bool) -> None:
        if self.path in {"/v2", "/v2/"}:
            self._head(HTTPStatus.OK, 2, "application/json")
            if with_body:
                self.wfile.write(b"{}")
            return
        blob = self.find(self.path)
        if blob is None:
            self._head(HTTPStatus.NOT_FOUND, 0, "application/json")
            return
        start, end = 0, blob.size
        asked = _RANGE.match(self.headers.get("Range", ""))
        if asked:
            start, end = int(asked[1]), min(blob.size, int(asked[2]) + 1 if asked[2] else blob.size)
            if start >= end:
                self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, blob.media_type)
                return
        content_range = f"bytes {start}-{end - 1}/{blob.size}" if asked else None
        status = HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK
        self._head(status, end - start, blob.media_type, content_range)
        if with_body:
            with blob.file.open("rb") as file, contextlib.suppress(ConnectionError):
                file.seek(blob.offset + start)
                _copy(file, self.wfile, end - start)

    def _head(self, status: HTTPStatus, length: int, media_type: str, content_range: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()


def _copy(source: IO[bytes], sink: Any, count: int) -> None:
    while count > 0 and (block := source.read(min(count, 1 << 20))):
        sink.write(block)
        count -= len(block)


__all__ = ["ImageServer"]
