"""The wheel, installed where the repository is not: what it carries, and what runs from it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
CARRIED = ("templates", "workflows")
SOURCES = ("fleetd", "netbox_fleet", "fleet_lab", "templates", "workflows")
FILES = ("pyproject.toml", "README.md", "LICENSE", "classes.json")
INSTALL = (sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--no-index", "--offline", "--quiet")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def ran(*command: str | Path, **how) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **how)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy: nothing but the sources takes part."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(CHECKOUT / name, source / name)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    done = ran(sys.executable, "-c", build, cwd=source)
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = out.glob("*.whl")
    return made


class Installed:
    """An environment of its own. What the wheel depends on is borrowed from the tests' environment."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.python = folder, folder / "venv" / "bin" / "python"
        assert ran(sys.executable, "-m", "venv", "--without-pip", folder / "venv").returncode == 0
        done = ran(*INSTALL, "--python", self.python, wheel)
        assert done.returncode == 0, done.stderr
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = folder / "venv" / "lib" / version / "site-packages"
        self.borrowed = packages / "borrowed.pth"
        self.borrowed.write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        return ran(*command, cwd=self.folder, env={**kept, **environment})

    def fleetd(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.folder / "venv" / "bin" / "fleetd", *arguments, **environment)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def test_it_carries_every_template_workflow_class_and_pin(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".data/data/")[2] or name for name in archive.namelist()}

    wanted = {
        f"share/fleetd/{file.relative_to(CHECKOUT)}"
        for folder in CARRIED
        for file in (CHECKOUT / folder).rglob("*")
        if file.is_file()
    }
    wanted |= {"share/fleetd/classes.json", "fleetd/data/ek-roots.toml", "netbox_fleet/py.typed"}
    assert wanted <= names


def test_it_is_the_wheel_that_runs_and_not_the_checkout(installed):
    done = installed.run(installed.python, "-c", "import fleetd; print(fleetd.__file__)")

    assert done.stdout.startswith(str(installed.folder))


def test_inspect_tells_what_a_log_says(installed):
    made = installed.folder / "log"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.unit.attestation.evidence import a_boot\n"
        "Path(sys.argv[2]).write_bytes(a_boot().bytes())"
    )
    assert ran(sys.executable, "-c", code, CHECKOUT, made).returncode == 0

    done = installed.fleetd("inspect", "eventlog", made)

    assert done.returncode == 0, done.stderr
    assert "sha256" in done.stdout.lower()


def test_doctor_names_what_is_wrong_and_finds_what_the_wheel_carries(installed):
    secrets = installed.folder / "none"
    done = installed.fleetd(
        "doctor",
        "--json",
        FLEETD_DATABASE__URL="postgresql://127.0.0.1:1/x",
        FLEETD_BROKER__URL="redis://127.0.0.1:1/0",
        FLEETD_CA__DIRECTORY=str(secrets),
        FLEETD_PATHS__CLASSES_FILE=str(installed.folder / "venv" / "share" / "fleetd" / "classes.json"),
    )

    assert done.returncode == 1, done.stderr
    seen = {note["part"]: note["level"] for note in json.loads(done.stdout)}
    assert seen["workflows"] == "good"
    assert (seen["database"], seen["broker"], seen["authority"]) == ("broken", "broken", "broken")


def test_the_plugin_runs_in_netbox_and_lacks_no_migration(installed, lab_places, postgres, valkey):
    from fleet_lab.services.netbox import make_netbox

    netbox = make_netbox(lab_places, postgres, valkey, database="wheel", redis=10)
    done = installed.run(
        installed.python,
        "-m",
        "netbox",
        "makemigrations",
        "netbox_fleet",
        "--check",
        "--dry-run",
        NETBOX_ROOT=str(netbox.root),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No changes" in done.stdout


def test_without_the_service_the_program_says_what_to_install(installed):
    text = installed.borrowed.read_text()
    installed.borrowed.unlink()
    try:
        done = installed.fleetd("doctor")
    finally:
        installed.borrowed.write_text(text)

    assert done.returncode == 1
    assert "pip install 'netbox-fleet[service]'" in done.stderr
