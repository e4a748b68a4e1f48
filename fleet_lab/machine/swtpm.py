"""A software TPM with endorsement keys certified by a CA of the lab: to fleetd, an owner's root."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from fleet_lab.places import LabError
from fleet_lab.services.process import Child


@dataclass(frozen=True, slots=True)
class TpmAuthority:
    """The local CA of swtpm_localca(8), in a folder of the lab: swtpm's own lies where only its user may write."""

    folder: Path

    @property
    def root_certificate(self) -> Path:
        """The CA's self-signed root, PEM: what an owner imports so that the lab's TPMs are accepted."""
        return self.folder / "swtpm-localca-rootca-cert.pem"

    @property
    def issuer_certificate(self) -> Path:
        """The certificate that issued the EK certificates, PEM."""
        return self.folder / "issuercert.pem"

    def configure(self) -> Path:
        """Write the configuration of swtpm_setup(8) and swtpm_localca(8); return the former's path."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "swtpm-localca.conf").write_text(
            f"statedir = {self.folder}\n"
            f"signingkey = {self.folder / 'signkey.pem'}\n"
            f"issuercert = {self.issuer_certificate}\n"
            f"certserial = {self.folder / 'certserial'}\n"
        )
        (self.folder / "swtpm-localca.options").write_text(
            "--platform-manufacturer FleetLab\n--platform-version 1\n--platform-model Lab\n"
        )
        setup = self.folder / "swtpm_setup.conf"
        setup.write_text(
            "create_certs_tool = swtpm_localca\n"
            f"create_certs_tool_config = {self.folder / 'swtpm-localca.conf'}\n"
            f"create_certs_tool_options = {self.folder / 'swtpm-localca.options'}\n"
            "active_pcr_banks = sha256\n"
        )
        return setup

    def manufacture(self, state: Path, serial: str) -> None:
        """Make the state of a new TPM: EKs L-1 (RSA-2048) and H-3 (P-384), each with its certificate in NV.

        Raises:
            LabError: swtpm_setup failed.
        """
        configuration = self.configure()
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = re.sub(r"[^A-Za-z0-9-]", "-", serial)
        command = ["swtpm_setup", "--tpm2", "--tpmstate", str(state), "--config", str(configuration)]
        command += ["--create-ek-cert", "--create-platform-cert", "--lock-nvram", "--pcr-banks", "sha256"]
        command += ["--vmid", name, "--not-overwrite"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"swtpm_setup failed: {(done.stdout + done.stderr).strip()[-400:]}")


@dataclass
class Swtpm:
    """The TPM of one machine: its state lasts, its process lives as long as the machine has power."""

    state: Path
    control: Path
    log: Path
    _child: Child | None = field(default=None, init=False)

    def start_for_qemu(self) -> None:
        """Power the TPM on; QEMU initialises it through the control channel."""
        self.control.parent.mkdir(parents=True, exist_ok=True)
        self.control.unlink(missing_ok=True)
        command = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self.state}"]
        command += ["--ctrl", f"type=unixio,path={self.control}", "--terminate"]
        self._child = Child("swtpm", command, self.log).start()
        self._child.wait_until(self.control.exists, 20)

    def start_on_socket(self, commands: Path) -> None:
        """Power the TPM on and start it up, for TSS programs (TCTI `swtpm:path=…`), one at a time."""
        for path in (commands, commands.with_name(commands.name + ".ctrl")):
            path.unlink(missing_ok=True)
        command = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self.state}"]
        command += ["--server", f"type=unixio,path={commands}", "--ctrl", f"type=unixio,path={commands}.ctrl"]
        command += ["--flags", "not-need-init,startup-clear"]
        self._child = Child("swtpm", command, self.log).start()
        self._child.wait_until(commands.with_name(commands.name + ".ctrl").exists, 20)

    def stop(self) -> None:
        """Cut the TPM's power; its state stays in its folder."""
        if self._child is not None:
            self._child.stop(5)
            self._child = None
