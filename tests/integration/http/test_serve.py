"""`fleetd serve` as a process: TLS, both listeners, slow callers, and its end."""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
HOOK_SECRET = "hook-secret"
CLASS = {
    "name": "lab-alpine",
    "family": "alpine-image",
    "image": {"url": "http://i.example.org/x", "sha256": "0" * 64, "size": 1024},
    "attestation": {"install": {"boot": "network-trusted"}},
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def closed(path: Path, content: bytes) -> Path:
    path.touch(0o600)
    path.write_bytes(content)
    return path


class Serving:
    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.port, self.inside = folder, free_port(), free_port()
        (folder / "classes.json").write_text(json.dumps({"classes": [CLASS]}))
        closed(folder / "token", b"token")
        closed(folder / "hook", HOOK_SECRET.encode() + b"\n")
        (folder / "fleetd.toml").write_text(
            f"""
            [database]
            url = "{database}"
            [broker]
            url = "redis://127.0.0.1:1/0"
            [netbox]
            token_file = "{folder}/token"
            webhook_secret_file = "{folder}/hook"
            [machine]
            host = "127.0.0.1"
            port = {self.port}
            public_url = "https://127.0.0.1:{self.port}"
            [inside]
            port = {self.inside}
            [ca]
            directory = "{folder}/ca"
            server_key_file = "{folder}/server.key"
            [paths]
            classes_file = "{folder}/classes.json"
            templates = "{CHECKOUT}/templates"
            [caps]
            request_deadline = 2
            connection_deadline = 4
            """
        )
        self.environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "FLEETD_CONFIG": str(folder / "fleetd.toml")}
        self.process: subprocess.Popen[bytes] | None = None

    def fleetd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fleetd", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def start(self) -> None:
        for arguments in (("migrate",), ("ca", "init")):
            done = self.fleetd(*arguments)
            assert done.returncode == 0, done.stderr
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleetd", "serve"], env=self.environment, stderr=(self.folder / "log").open("wb")
        )
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"http://127.0.0.1:{self.inside}/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.2)
        raise AssertionError((self.folder / "log").read_text())

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca" / "root.pem"))

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"https://127.0.0.1:{self.port}", verify=self.context(), timeout=30)


@pytest.fixture(scope="module")
def serving(postgres, tmp_path_factory):
    name = f"serve_{secrets.token_hex(4)}"
    postgres.create(name)
    running = Serving(tmp_path_factory.mktemp("serve"), postgres.url(name))
    running.start()
    yield running
    assert running.process is not None
    running.process.send_signal(signal.SIGTERM)
    running.process.wait(30)
    postgres.drop(name)


def test_machines_are_served_over_tls_with_fleetds_own_certificate(serving):
    with serving.client() as client:
        answer = client.post("/v1/challenges", json={"version": 1, "purpose": "check", "machine": 1})

    assert answer.status_code == 201
    assert "server" not in answer.headers


def test_tls_below_1_2_is_refused(serving):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", serving.port)) as raw, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(raw)


def test_the_service_is_ready_and_says_so(serving):
    answer = httpx.get(f"http://127.0.0.1:{serving.inside}/readyz")

    assert (answer.status_code, answer.json()) == (200, {"ready": True, "problems": []})


def test_metrics_are_exposed_inside(serving):
    assert b"# HELP" in httpx.get(f"http://127.0.0.1:{serving.inside}/metrics").content


def test_a_signed_webhook_is_taken_and_any_other_refused(serving):
    body = json.dumps({"event": "updated", "model": "machine", "data": {"id": 7}}).encode()
    signature = hmac.new(HOOK_SECRET.encode(), body, hashlib.sha512).hexdigest()
    url = f"http://127.0.0.1:{serving.inside}/hooks/netbox"

    assert httpx.post(url, content=body, headers={"X-Hook-Signature": signature}).status_code == 204
    for headers in ({}, {"X-Hook-Signature": "0" * 128}, {"X-Hook-Signature": signature[:-1] + "z"}):
        assert httpx.post(url, content=body, headers=headers).status_code == 403
    signature = hmac.new(HOOK_SECRET.encode(), b"[]", hashlib.sha512).hexdigest()
    assert httpx.post(url, content=b"[]", headers={"X-Hook-Signature": signature}).status_code == 400


def test_crls_and_ca_certificates_are_published(serving):
    with serving.client() as client:
        assert client.get("/v1/crl/devid").headers["content-type"] == "application/pkix-crl"
        assert client.get("/v1/ca/devid").text.count("BEGIN CERTIFICATE") == 2
        assert client.get("/v1/crl/nothing").status_code == 404


def test_a_body_that_never_comes_is_not_waited_for(serving):
    head = b"POST /v1/enrollments HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", serving.port)) as raw,
        serving.context().wrap_socket(raw, server_hostname="127.0.0.1") as stream,
    ):
        stream.settimeout(30)
        stream.sendall(head)
        answer = stream.recv(4096)

    assert answer.startswith(b"HTTP/1.1 408")


def test_a_connection_that_says_nothing_is_cut_off(serving):
    with (
        socket.create_connection(("127.0.0.1", serving.port)) as raw,
        serving.context().wrap_socket(raw, server_hostname="127.0.0.1") as stream,
    ):
        stream.settimeout(30)
        stream.sendall(b"POST /v1/checks HTT")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert stream.recv(10) == b""


def test_bytes_that_are_no_http_are_a_4xx(serving):
    with (
        socket.create_connection(("127.0.0.1", serving.port)) as raw,
        serving.context().wrap_socket(raw, server_hostname="127.0.0.1") as stream,
    ):
        stream.settimeout(30)
        stream.sendall(b"\x00\x01\x02 garbage\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 400")


def test_query_strings_never_reach_the_log(serving):
    with serving.client() as client:
        client.get("/v1/config?code=VERY-SECRET-CODE-1234567890")

    assert "VERY-SECRET" not in (serving.folder / "log").read_text()


def test_migrating_again_changes_nothing(serving):
    assert serving.fleetd("migrate").returncode == 0
