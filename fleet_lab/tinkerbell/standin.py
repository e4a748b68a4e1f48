"""The stand-in as a whole: started in this process's loop, in a thread, or by the command line."""

import asyncio
import base64
import contextlib
import os
import secrets
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import uvicorn
import yaml

from fleet_lab.certificate import self_signed
from fleet_lab.tinkerbell import agents, persistence, rufio
from fleet_lab.tinkerbell.api import KubernetesApi
from fleet_lab.tinkerbell.controller import Controller
from fleet_lab.tinkerbell.store import Store, collect_garbage

NAMESPACES = ("default", "tinkerbell", "kube-system")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. `folder` holds the kubeconfig, the certificate and (when `keep`) the objects."""

    folder: Path
    kube_port: int = 0
    grpc_port: int = 0
    address: str = "127.0.0.1"
    keep: bool = False
    namespaces: tuple[str, ...] = NAMESPACES
    give_up_after: float = agents.GIVE_UP_AFTER
    rufio_workers: int = 1
    rufio_check_every: float = rufio.CHECK_EVERY


@dataclass(frozen=True, slots=True)
class Running:
    """Where a running stand-in is reached."""

    kubeconfig: Path
    api: str
    grpc: str
    store: Store
    server: KubernetesApi = field(repr=False)


@contextlib.asynccontextmanager
async def running(options: Options) -> AsyncIterator[Running]:
    """Run the stand-in while the context is open."""
    options.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    certificate = self_signed(options.folder / "tls.pem", (options.address, "localhost"))
    token = _token(options.folder / "token")
    store = Store()
    with persistence.kept(store, options.folder / "objects.jsonl" if options.keep else None):
        api = KubernetesApi(store, token, options.namespaces)
        async with _http(api, options, certificate) as port, _grpc(store, options) as grpc_port:
            address = f"https://{options.address}:{port}"
            kubeconfig = _write_kubeconfig(options, address, token, certificate)
            work = [
                asyncio.create_task(part)
                for part in (
                    Controller(store).run(),
                    rufio.Rufio(store, options.rufio_workers, options.rufio_check_every).run(),
                    collect_garbage(store),
                )
            ]
            try:
                yield Running(kubeconfig, address, f"{options.address}:{grpc_port}", store, api)
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)


@contextlib.contextmanager
def in_thread(options: Options) -> Iterator[Running]:
    """Run the stand-in in a thread with its own loop; only `kubeconfig`, `api` and `grpc` are for other threads."""
    started, stop, found = threading.Event(), threading.Event(), []
    problems: list[BaseException] = []

    async def main() -> None:
        async with running(options) as there:
            found.append(there)
            started.set()
            while not stop.is_set():  # noqa: ASYNC110 - the other side is a thread
                await asyncio.sleep(0.05)

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            problems.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="tinkerbell-stand-in", daemon=True)
    thread.start()
    started.wait()
    if problems:
        raise problems[0]
    try:
        yield found[0]
    finally:
        stop.set()
        thread.join(30)


@contextlib.asynccontextmanager
async def _http(api: KubernetesApi, options: Options, certificate: Path) -> AsyncIterator[int]:
    config = uvicorn.Config(
        api,
        host=options.address,
        port=options.kube_port,
        ssl_certfile=str(certificate),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
        server_header=False,
        ssl_cert_reqs=ssl.CERT_NONE,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        if serving.done():
            serving.result()
            raise OSError(f"the API cannot listen at {options.address}:{options.kube_port}")
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _grpc(store: Store, options: Options) -> AsyncIterator[int]:
    server = grpc.aio.server()
    agents.WorkflowService(store, options.give_up_after).add_to(server)
    port: int = server.add_insecure_port(f"{options.address}:{options.grpc_port}")
    if port == 0:
        raise OSError(f"the agents' service cannot listen at {options.address}:{options.grpc_port}")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0.5)


def _token(path: Path) -> str:
    if path.exists():
        return path.read_text()
    path.touch(mode=0o600)
    path.write_text(secrets.token_urlsafe(24))
    return path.read_text()


def _write_kubeconfig(options: Options, address: str, token: str, certificate: Path) -> Path:
    pem = certificate.read_text()
    public = pem[pem.index("-----BEGIN CERTIFICATE") :]
    name = "fleet-lab"
    cluster = {"server": address, "certificate-authority-data": base64.b64encode(public.encode()).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "tinkerbell"}}],
        "current-context": name,
    }
    path = options.folder / "kubeconfig"
    beside = path.with_suffix(".new")
    beside.touch(mode=0o600)
    beside.write_text(yaml.safe_dump(content))
    os.replace(beside, path)  # noqa: PTH105 - atomic, the same name
    return path
