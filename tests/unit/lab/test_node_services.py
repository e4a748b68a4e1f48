"""What runs on installed nodes: the same two services on Debian (systemd units), NixOS (module) and Alpine (OpenRC)."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet_machine.__main__ import parser

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
SERVICES = ("fleet-claim-seed.service", "fleet-boot-check.service")
_STUB = """
let
  lib = {
    mkEnableOption = text: { };
    mkOption = option: option;
    mkIf = condition: value: value;
    types = { package = null; str = null; };
  };
  python3 = { withPackages = choose: "/python"; };
  pkgs = { inherit python3; mtools = "/mtools"; util-linux = "/util-linux"; };
  module = import (builtins.toPath "@module@");
  cfg = { enable = true; python = "/python"; stateDirectory = "/var/lib/fleet"; interval = "1h"; };
in (module { inherit lib pkgs; config.services.fleetMachine = cfg; }).config.systemd
"""


def unit(name):
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str
    read.read(DEPLOY / "debian" / name)
    return read


def commands_of(text):
    return text.split(" -m fleet_machine ", 1)[1].split()


@pytest.fixture(scope="module")
def nixos(tmp_path_factory):
    """The module's systemd part, evaluated by Nix itself over the few functions of nixpkgs that it uses."""
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("nix-instantiate is not installed")
    folder = tmp_path_factory.mktemp("nix")
    stub = folder / "stub.nix"
    stub.write_text(_STUB.replace("@module@", str(DEPLOY / "nixos" / "fleet-machine.nix")))
    done = subprocess.run(
        [nix, "--eval", "--json", "--strict", "--store", "dummy://", "--readonly-mode", stub],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(folder), "NIX_STATE_DIR": str(folder), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SERVICES)
def test_every_unit_runs_a_command_that_fleet_machine_has(name):
    asked = parser().parse_args(commands_of(unit(name)["Service"]["ExecStart"]))

    assert asked.command in name
    assert getattr(asked, "once", True), "a timer starts one check at a time"


def test_systemd_accepts_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    units = [DEPLOY / "debian" / name for name in (*SERVICES, "fleet-boot-check.timer")]

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--generators=no", *units],
        capture_output=True,
        text=True,
        check=False,
        env={"SYSTEMD_UNIT_PATH": f"{DEPLOY / 'debian'}:/lib/systemd/system", "PATH": "/usr/bin:/bin"},
    )

    assert [line for line in done.stderr.splitlines() if "fleet-" in line] == []


def test_the_nixos_module_and_the_debian_units_say_the_same(nixos):
    for name in SERVICES:
        debian, service = unit(name), nixos["services"][name.removesuffix(".service")]
        ours = {key: str(value).lower() for key, value in service["serviceConfig"].items() if key != "ExecStart"}
        theirs = {
            key: value.replace("yes", "true")
            for key, value in debian["Service"].items()
            if key not in {"ExecStart", "Environment"}
        }
        assert ours == theirs
        assert service["after"] == [item for item in debian["Unit"]["After"].split() if "cloud-init" not in item]
        assert service["wants"] == debian["Unit"]["Wants"].split()
        assert commands_of(service["serviceConfig"]["ExecStart"])[:1] == commands_of(debian["Service"]["ExecStart"])[:1]
    timer = {key: str(value) for key, value in nixos["timers"]["fleet-boot-check"]["timerConfig"].items()}
    assert timer == dict(unit("fleet-boot-check.timer")["Timer"].items())


def test_the_nixos_commands_are_ones_that_fleet_machine_has(nixos):
    for service in nixos["services"].values():
        assert parser().parse_args(commands_of(service["serviceConfig"]["ExecStart"])).state == Path("/var/lib/fleet")


@pytest.mark.parametrize("name", ["fleet-claim-seed.initd", "fleet-boot-check.initd"])
def test_the_openrc_scripts_run_commands_that_fleet_machine_has(name):
    script = (DEPLOY / "alpine" / name).read_text()

    (words,) = re.findall(r"-m fleet_machine ([a-z-]+)", script)
    assert parser().parse_args([words]).command in name


@pytest.mark.parametrize("path", sorted((DEPLOY / "alpine").glob("*.initd")), ids=lambda path: path.name)
def test_shellcheck_has_nothing_against_the_openrc_scripts(path):
    program = shutil.which("shellcheck")
    if program is None:
        pytest.fail("shellcheck is missing: scripts/bootstrap test installs it")
    # Read by sh; what openrc-run gives and takes is not seen by it: its variables, and functions that it calls.
    options = ["--shell=sh", "--severity=style", "--exclude=SC2034"]

    done = subprocess.run([program, *options, path], capture_output=True, text=True, check=False)

    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize("path", sorted((DEPLOY / "nixos").glob("*.nix")), ids=lambda path: path.name)
def test_nix_reads_every_file(path):
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("nix-instantiate is not installed")

    done = subprocess.run([nix, "--store", "dummy://", "--parse", path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
