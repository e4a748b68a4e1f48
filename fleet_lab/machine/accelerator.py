"""How QEMU runs a machine here: with KVM where KVM really works, otherwise emulated (TCG)."""

import functools
import os
import subprocess
import tempfile
import time
from pathlib import Path

from fleet_lab.places import cache

_PROBE_SECONDS = 6.0


@functools.cache
def accelerator() -> str:
    """Return `kvm` or `tcg`; `FLEET_LAB_ACCEL` decides when it is set.

    A host may offer /dev/kvm and yet fail at the first unusual instruction of firmware (nested virtualisation), and
    QEMU then stands still instead of falling back. So firmware is started once after each boot of the host, and must
    reach its first output.
    """
    asked = os.environ.get("FLEET_LAB_ACCEL")
    if asked in {"kvm", "tcg"}:
        return asked
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    known = cache() / f"accelerator-{boot}"
    if not known.exists():
        for old in cache().glob("accelerator-*"):
            old.unlink(missing_ok=True)
        known.write_text("kvm" if _firmware_starts_under_kvm() else "tcg", encoding="ascii")
    return known.read_text(encoding="ascii")


def _firmware_starts_under_kvm() -> bool:
    from fleet_lab.machine.firmware import firmware_code

    with tempfile.TemporaryDirectory() as folder:
        console = Path(folder) / "console"
        console.touch()
        command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "kvm", "-m", "256", "-display", "none"]
        command += ["-nodefaults", "-serial", f"file:{console}", "-no-reboot"]
        command += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={firmware_code()}"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + _PROBE_SECONDS
            while time.monotonic() < deadline and process.poll() is None and not console.stat().st_size:
                time.sleep(0.1)
            started = console.stat().st_size > 0
            process.kill()
    return started
