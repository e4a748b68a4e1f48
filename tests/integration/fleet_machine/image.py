"""Disk images as an owner's build makes them: GPT, ESP with a loader, ext4 root. And a server that gives them."""

import gzip
import http.server
import lzma
import os
import subprocess
import threading

import zstandard

MIB = 1 << 20
ESP_START, ESP_SIZE = MIB, 4 * MIB
ROOT_START, ROOT_SIZE = 5 * MIB, 8 * MIB
META_START = 13 * MIB
TOOLS = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
"""An ordinary user's PATH lacks sgdisk, mkfs and debugfs."""
COMPRESSORS = {
    "raw": bytes,
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip": gzip.compress,
    "xz": lzma.compress,
}


def build_image(path, *, size=20 * MIB, root_fs=("mkfs.ext4", "-q", "-F"), meta=False):
    """Write a GPT image to `path` and return its bytes."""
    with path.open("wb") as file:
        file.truncate(size)
    tables = ["-n", "1:2048:+4M", "-t", "1:ef00", "-n", "2:0:+8M", "-t", "2:8304"]
    if meta:
        tables += ["-n", "3:0:+1M", "-t", "3:8300", "-c", "3:META"]
    run("sgdisk", *tables, str(path))
    part = path.with_suffix(".part")
    loader = path.with_suffix(".efi")
    loader.write_bytes(b"MZ a loader" * 1000)
    blank(part, ESP_SIZE)
    run("mkfs.vfat", str(part))
    run("mmd", "-i", str(part), "::/EFI", "::/EFI/BOOT")
    run("mcopy", "-i", str(part), str(loader), "::/EFI/BOOT/BOOTX64.EFI")
    put(path, part.read_bytes(), ESP_START)
    blank(part, ROOT_SIZE)
    run(*root_fs, str(part))
    put(path, part.read_bytes(), ROOT_START)
    return path.read_bytes()


def blank(path, size):
    with path.open("wb") as file:
        file.truncate(size)


def put(path, content, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, env=TOOLS)


class ImageServer:
    """Serves byte strings; can cut connections, send elsewhere, ignore ranges, or change a file."""

    def __init__(self):
        self.files = {}
        self.cut_after = []
        self.redirects = []
        self.refusals = []
        """Statuses that answer the next requests for a rest."""
        self.ranges = True
        self.seen = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.serve(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, request):
        content = self.files.get(request.path[1:])
        asked = request.headers.get("Range")
        self.seen.append((request.path, asked))
        if self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects.pop(0))
            request.end_headers()
            return
        if asked and self.refusals:
            request.send_error(self.refusals.pop(0))
            return
        if content is None:
            request.send_error(404)
            return
        start = int(asked[6:].rstrip("-")) if asked and self.ranges else 0
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - start))
        request.send_header("ETag", f'"{hash(content)}"')
        request.end_headers()
        cut = self.cut_after.pop(0) if self.cut_after else None
        request.wfile.write(content[start:] if cut is None else content[start : start + cut])
