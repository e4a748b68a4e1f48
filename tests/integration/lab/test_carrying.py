"""The ways between a machine and the host: forwarder, image server, pull by digest."""

import hashlib
import http.client
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fleet_lab.hookos.pull import PullError, Reference, fetch_http, pull
from fleet_lab.images.filetree import File, write_tar
from fleet_lab.images.oci import Layer, write_archive
from fleet_lab.machine import forwarder
from fleet_lab.registry import ImageServer


@pytest.fixture
def echo():
    """A server that tells who connected, then repeats what it hears until the client has said all."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            with connection:
                heard = b""
                while block := connection.recv(65536):
                    heard += block
                connection.sendall(peer[0].encode() + b" " + heard)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def said_by(connection):
    heard = b""
    while block := connection.recv(65536):
        heard += block
    return heard


def test_a_forwarder_connects_from_the_machines_address(echo):
    carried = forwarder.Forwarder("127.64.3.4", echo)
    with socket.create_connection(("127.0.0.1", carried.port)) as client:
        client.sendall(b"x" * 1_000_000)
        client.shutdown(socket.SHUT_WR)
        heard = said_by(client)
    carried.close()

    assert heard == b"127.64.3.4 " + b"x" * 1_000_000


def test_the_program_carries_the_connection_on_its_standard_input(echo):
    ours, theirs = socket.socketpair()
    program = [sys.executable, "-I", "-S", str(Path(forwarder.__file__)), "127.64.3.5", echo[0], str(echo[1])]
    with subprocess.Popen(program, stdin=theirs, stdout=theirs) as process, ours:
        theirs.close()
        ours.sendall(b"hello")
        ours.shutdown(socket.SHUT_WR)
        heard = said_by(ours)

    assert heard == b"127.64.3.5 hello"
    assert process.returncode == 0


def test_a_forwarder_to_nowhere_closes_the_connection():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        target = closed.getsockname()
    carried = forwarder.Forwarder("127.64.3.4", target)
    with socket.create_connection(("127.0.0.1", carried.port)) as client:
        assert client.recv(1) == b""
    carried.close()


@pytest.fixture
def served(tmp_path):
    """An image server with one action image and one disk image."""
    layer = tmp_path / "layer.tar"
    with layer.open("wb") as file:
        write_tar([File("etc/hello", b"hello\n"), File("bin/run", b"#!/bin/sh\n", 0o755)], file)
    digest = write_archive(tmp_path / "image.tar", "shell", [Layer.of(layer)], {"Entrypoint": ["/bin/run"]})
    (tmp_path / "disk").write_bytes(bytes(range(256)) * 100)
    server = ImageServer([tmp_path / "image.tar"], {"disk": tmp_path / "disk"})
    yield server, digest
    server.close()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_an_image_is_pulled_by_its_digest(served, tmp_path):
    server, digest = served

    config = pull(Reference.parse(f"127.0.0.1:{server.port}/shell@{digest}"), tmp_path / "out")

    assert config == {"Entrypoint": ["/bin/run"]}
    assert (tmp_path / "out/rootfs/etc/hello").read_bytes() == b"hello\n"
    assert (tmp_path / "out/rootfs/bin/run").stat().st_mode & 0o777 == 0o755


def altered(digest_of_original, find, replacement):
    """A fetch that changes one answer on its way."""

    def fetch(url, accept):
        body = fetch_http(url, accept)
        if digest_of_original not in url:
            return body
        import io

        return io.BytesIO(body.read().replace(find, replacement))

    return fetch


def test_a_manifest_that_was_changed_on_the_way_is_refused(served, tmp_path):
    server, digest = served
    changed = altered(digest, b'"schemaVersion":2', b'"schemaVersion":3')

    reference = Reference.parse(f"127.0.0.1:{server.port}/shell@{digest}")
    with pytest.raises(PullError, match="the registry sent"):
        pull(reference, tmp_path / "out", changed)


def test_a_layer_that_was_changed_on_the_way_is_refused(served, tmp_path):
    server, digest = served
    _, manifest = ask(server, f"/v2/shell/manifests/{digest}")
    layer = json.loads(manifest)["layers"][0]["digest"]

    with pytest.raises(PullError, match="the registry sent"):
        pull(
            Reference.parse(f"127.0.0.1:{server.port}/shell@{digest}"),
            tmp_path / "out",
            altered(layer, b"hello\n", b"HELLO\n"),
        )


def test_a_manifest_has_its_media_type_and_digest(served):
    server, digest = served
    answer, body = ask(server, f"/v2/shell/manifests/{digest}")

    assert answer.headers["Content-Type"] == "application/vnd.oci.image.manifest.v1+json"
    assert hashlib.sha256(body).hexdigest() == digest.removeprefix("sha256:")


def test_a_download_goes_on_where_it_was_cut(served):
    server, _ = served
    answer, body = ask(server, "/images/disk", Range="bytes=25000-")

    assert answer.status == 206
    assert answer.headers["Content-Range"] == "bytes 25000-25599/25600"
    assert body == (bytes(range(256)) * 100)[25000:]


def test_a_range_behind_the_end_is_refused(served):
    server, _ = served

    assert ask(server, "/images/disk", Range="bytes=25600-")[0].status == 416


def test_a_head_tells_the_size_only(served):
    server, _ = served
    answer, body = ask(server, "/images/disk", method="HEAD")

    assert (answer.headers["Content-Length"], body) == ("25600", b"")


@pytest.mark.parametrize(
    "path", ["/images/none", "/images/../image.tar", "/v2/shell/manifests/latest", "/etc/passwd", "/"]
)
def test_what_is_not_served_is_not_found(served, path):
    server, _ = served

    assert ask(server, path)[0].status == 404


def test_the_distribution_api_says_that_it_is_there(served):
    server, _ = served

    assert ask(server, "/v2/")[0].status == 200
