"""How long write-image takes beside `zstd -dc IMAGE | dd of=DISK`, both onto a file, both flushed.

The image is half noise, half text, as much as a system's disk is; the client downloads it over HTTP from another process,
hashes, writes, flushes, and reads 1,024 places back; the pair of tools reads a file. They take turns, in one run.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.verdict import at_most
from fleet_lab.places import free_port
from fleet_machine.clock import SystemClock
from fleet_machine.disk.commands import KernelCommands
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.source import Disk, OpenedDisk
from fleet_machine.disk.write_image import ImageWanted, ImageWriter

MIB = 1 << 20
SIZE = 1024 * MIB
TURNS = 3


def made(path: Path) -> str:
    """Write the raw image; return its SHA-256."""
    rng = random.Random(1)
    whole = sha256()
    with path.open("wb") as file:
        for _ in range(SIZE // MIB):
            words = b"".join(b"%08x " % rng.randrange(1 << 32) for _ in range(256))
            block = rng.randbytes(MIB // 2) + (words * (MIB // 2 // len(words) + 1))[: MIB // 2]
            whole.update(block)
            file.write(block)
    return whole.hexdigest()


def by_client(url: str, digest: str, path: Path) -> None:
    """Write the image as the action does."""
    clock = SystemClock()
    fd = os.open(path, os.O_RDWR)
    try:
        disk = Disk(path.name, "BENCH", "", "file", SIZE, 512, path)
        wanted = ImageWanted(url, digest, SIZE)
        pace = Pace(clock, lambda _percent, _text: None)
        ImageWriter(
            OpenedDisk(disk, fd), wanted, KernelCommands(), clock, pace, random.Random(2), disk_is_zero=False
        ).run()
    finally:
        os.close(fd)


def by_tools(image: Path, path: Path) -> None:
    """Write the image as a person would."""
    unpacked = subprocess.Popen(["zstd", "-dcq", str(image)], stdout=subprocess.PIPE)
    written = ["dd", f"of={path}", "bs=1M", "iflag=fullblock", "conv=notrunc,fsync", "status=none"]
    subprocess.run(written, stdin=unpacked.stdout, check=True)
    if unpacked.wait():
        raise SystemExit("zstd failed")


def seconds(work: Callable[[], None]) -> float:
    """Return how long it takes, begun with nothing left to flush."""
    os.sync()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    """Print one line a measurement."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLEET_BENCH_DISK")) as name:
        folder = Path(name)
        raw, image, disk = folder / "raw", folder / "image.zst", folder / "disk"
        digest = made(raw)
        subprocess.run(["zstd", "-q3", str(raw), "-o", str(image)], check=True)
        raw.rename(disk)
        port = free_port()
        server = subprocess.Popen(
            [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{port}/{image.name}"
            wait_for(url)
            client, tools = [], []
            for _ in range(TURNS):
                tools.append(seconds(lambda: by_tools(image, disk)))
                client.append(seconds(lambda: by_client(url, digest, disk)))
        finally:
            server.terminate()
            server.wait()
        at_most("write-image-of-zstd-dd", statistics.median(client) / statistics.median(tools), "x", 1.2)


def wait_for(url: str) -> None:
    """Wait until the server answers."""
    for _ in range(100):
        try:
            with urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


if __name__ == "__main__":
    main()
