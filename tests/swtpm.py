"""A software TPM for tests: real swtpm, one process, its state in a folder."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class SoftwareTpm:
    """A running swtpm; `tcti` opens it."""

    state: Path
    sockets: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def tcti(self) -> str:
        """The TCTI configuration for tpm2-pytss and tpm2-tools (`TPM2TOOLS_TCTI`)."""
        return f"swtpm:path={self.sockets}/tpm"

    def start(self) -> None:
        """Power on: PCRs are reset, transient objects are gone."""
        self.process = subprocess.Popen(
            [
                "swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self.state}",
                "--server", f"type=unixio,path={self.sockets}/tpm",
                "--ctrl", f"type=unixio,path={self.sockets}/tpm.ctrl",
                "--flags", "not-need-init,startup-clear",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for _ in range(500):
            if (self.sockets / "tpm").exists() and (self.sockets / "tpm.ctrl").exists():
                return
            time.sleep(0.01)
        raise RuntimeError("swtpm did not open its sockets")

    def stop(self) -> None:
        """Power off, as a cut: nothing is saved that is not in NV already."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
            self.process = None
        for name in ("tpm", "tpm.ctrl"):
            with suppress(FileNotFoundError):
                (self.sockets / name).unlink()

    def power_cycle(self) -> None:
        """Switch off and on again."""
        self.stop()
        self.start()


@contextmanager
def start_swtpm(folder: Path, *, certificates: bool = True) -> Iterator[SoftwareTpm]:
    """Make and run a TPM in `folder`; with EK certificates of a local CA in `folder/ca` (L-1 RSA, H-3 P-384)."""
    state = folder / "tpm"
    state.mkdir(parents=True, exist_ok=True)
    if not any(state.iterdir()):
        manufacture(folder, state, certificates=certificates)
    sockets = Path(tempfile.mkdtemp(prefix="swtpm-"))  # a UNIX socket's path may have 107 bytes only
    tpm = SoftwareTpm(state, sockets)
    tpm.start()
    try:
        yield tpm
    finally:
        tpm.stop()
        shutil.rmtree(sockets, ignore_errors=True)


def manufacture(folder: Path, state: Path, *, certificates: bool) -> None:
    """Write the state of a new TPM, as its maker would leave it."""
    ca = folder / "ca"
    ca.mkdir(parents=True, exist_ok=True)
    localca, options, setup = folder / "localca.conf", folder / "localca.options", folder / "setup.conf"
    localca.write_text(
        f"statedir = {ca}\nsigningkey = {ca}/signkey.pem\nissuercert = {ca}/issuercert.pem\ncertserial = {ca}/certserial\n"
    )
    options.write_text("--platform-manufacturer Lab\n--platform-version 1\n--platform-model Lab\n")
    setup.write_text(
        f"create_certs_tool = {shutil.which('swtpm_localca')}\ncreate_certs_tool_config = {localca}\n"
        f"create_certs_tool_options = {options}\nactive_pcr_banks = sha256\n"
    )
    command = [
        "swtpm_setup",
        "--tpm2",
        "--tpm-state",
        str(state),
        "--config",
        str(setup),
        "--overwrite",
        "--pcr-banks",
        "sha256",
    ]
    if certificates:
        command += ["--create-ek-cert", "--lock-nvram"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(folder)})
    if done.returncode != 0:
        raise RuntimeError(f"swtpm_setup failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
