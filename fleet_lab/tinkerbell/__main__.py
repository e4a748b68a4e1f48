"""Command line: `python -m fleet_lab.tinkerbell --folder F`; prints one JSON line when ready, ends on SIGTERM."""

import argparse
import asyncio
import json
import signal
from pathlib import Path

from fleet_lab.tinkerbell.standin import NAMESPACES, Options, running


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="fleet_lab.tinkerbell", description="A stand-in for Tinkerbell.")
    parser.add_argument("--folder", type=Path, required=True, help="kubeconfig, certificate, token and objects")
    parser.add_argument("--kube-port", type=int, default=0, help="port of the Kubernetes API, 0 for any")
    parser.add_argument("--grpc-port", type=int, default=0, help="port of the agents' service, 0 for any")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--keep", action="store_true", help="keep the objects in the folder over restarts")
    parser.add_argument("--namespace", action="append", default=[], help="a namespace that exists, beside the usual")
    parser.add_argument("--give-up-after", type=float, default=59.0, help="seconds until a wrong call is answered")
    parser.add_argument("--rufio-max-concurrent-reconciles", type=int, default=1)
    parser.add_argument("--rufio-check-every", type=float, default=3.0, help="seconds between looks at a power action")
    asked = parser.parse_args()
    options = Options(
        folder=asked.folder,
        kube_port=asked.kube_port,
        grpc_port=asked.grpc_port,
        address=asked.address,
        keep=asked.keep,
        namespaces=(*NAMESPACES, *asked.namespace),
        give_up_after=asked.give_up_after,
        rufio_workers=asked.rufio_max_concurrent_reconciles,
        rufio_check_every=asked.rufio_check_every,
    )
    asyncio.run(_serve(options))


async def _serve(options: Options) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(options) as there:
        ready = {"ready": True, "kubeconfig": str(there.kubeconfig), "api": there.api, "grpc": there.grpc}
        print(json.dumps(ready), flush=True)
        await stop.wait()


if __name__ == "__main__":
    main()
