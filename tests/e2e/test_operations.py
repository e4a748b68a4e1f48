"""The procedures for operators, as their pages say: each command of docs/operations is run, and what a page shows is seen."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet_lab.classes import lab_light
from fleet_lab.demo.walk import value_of
from fleet_lab.fleetd_service import secret_file
from fleet_lab.places import CHECKOUT
from tests.e2e.life import Life

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAGES = CHECKOUT / "docs" / "operations"
SECTIONS = ["Use it when", "Before you begin", "Steps", "What may go wrong"]
SHELL = "shell.md"
LOOKS = re.compile(
    r"fleetd (doctor|machines (explain|list|show)|runs (list|show)|ek list|ca show|ca rotate status|nodes drift"
    r"|classes check|seeds render|audit verify)\b|netbox \S+$"
)
"""Commands that change nothing: they are given again until they show what the page says."""
PATIENCE = 300.0
"""Seconds without news after which a page is given up."""
TOKEN, OPTIONAL = "join.token", "lab-optional-bmc"


# --- what stands in a page ---


@dataclass
class Step:
    """A command with the lines that it shows, or (`by_hand`) what a person does at the machine."""

    line: int
    words: str
    shown: list[str] = field(default_factory=list)
    by_hand: bool = False


def steps_of(page: Path) -> Iterator[Step]:
    """Read a page: blocks of the kind `console`, and the marks of what is done by hand."""
    inside, step = False, None
    for number, text in enumerate(page.read_text().splitlines(), 1):
        line = text.strip()
        if line.startswith("```"):
            assert inside or line == "```console", f"{page.name}:{number}: nobody would run this block"
            inside = not inside
        elif inside and line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(number, line.removeprefix("$ "))
        elif inside:
            assert step is not None, f"{page.name}:{number}: output without a command"
            step.shown.append(line)
        if step is not None and (not inside or line.startswith("<!-- lab: ")):
            yield step
            step = None
        if line.startswith("<!-- lab: "):
            yield Step(number, line.removeprefix("<!-- lab: ").removesuffix(" -->"), by_hand=True)


def sees(output: str, line: str) -> bool:
    """Tell whether a line of the output is as the page shows it; `...` stands for anything."""
    return bool(re.search(".*".join(re.escape(part.strip()) for part in line.split("...")), output))


# --- an operator ---


class Shell:
    """A shell that goes on from command to command."""

    END = "end-of-this-command"

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environment,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Return exit status and output of a command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\nstatus=$?; echo; echo {self.END} $status\n")
        self.process.stdin.flush()
        output = []
        for line in self.process.stdout:
            if line.startswith(self.END):
                return int(line.split()[1]), "".join(output)
            output.append(line)
        raise AssertionError(f"the shell ended at {command}: {''.join(output)}")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Operator:
    """Somebody with a page before them, and one machine in mind."""

    fleet: object
    life: Life
    folder: Path
    head: str = ""
    bmc: str = ""
    firmware: str = ""
    """The version that was in the machine before somebody changed it."""
    spoken: dict[str, str] = field(default_factory=dict)
    """Variables of the shell by name."""
    examples: dict[str, str] = field(default_factory=dict)
    """What stands in the page, to what it is here."""

    def follow(self, page: str) -> None:
        """Do all that a page says, in its order."""
        shell = Shell(self.folder, self._environment())
        try:
            if page != SHELL:
                for step in steps_of(PAGES / SHELL):
                    if not LOOKS.match(step.words):
                        self._type(PAGES / SHELL, step, shell)
            self._follow(PAGES / page, shell)
        finally:
            shell.close()

    def _follow(self, page: Path, shell: Shell) -> None:
        for step in steps_of(page):
            if not step.by_hand:
                self._type(page, step, shell)
            elif step.words.endswith(".md"):
                self._follow(PAGES / step.words, shell)
            else:
                HANDS[step.words](self)

    def _type(self, page: Path, step: Step, shell: Shell) -> None:
        if step.words in STANDS_FOR:
            STANDS_FOR[step.words](self)
            return
        command = self._here(step.words)
        if assigned := re.fullmatch(r"([A-Z_]+)=(\S+)", step.words):
            name, example = assigned.groups()
            value = VALUES[name](self) if name in VALUES else example
            self.spoken[name] = value
            if name in VALUES and not example.isdecimal():
                self.examples[example] = value
            command = f"{name}={value}"
        news, deadline = "", 0.0
        while True:
            status, output = shell.run(command)
            missing = [line for line in step.shown if not sees(output, self._meant(line))]
            if status == 0 and not missing:
                return
            if output != news:
                news, deadline = output, time.monotonic() + PATIENCE
            again = LOOKS.match(step.words) and time.monotonic() < deadline
            assert again, f"{page.name}:{step.line}: {command}: ended with {status}, not seen {missing}:\n{output}"
            time.sleep(1)

    def _meant(self, shown: str) -> str:
        for name, value in self.spoken.items():
            shown = shown.replace(f"${name}", value)
        return self._here(shown)

    def _here(self, words: str) -> str:
        for example, value in self.examples.items():
            words = words.replace(example, value)
        return words

    def _environment(self) -> dict[str, str]:
        lab = self.fleet.lab
        header = self.folder / ".netbox.header"
        header.touch(mode=0o600)
        header.write_text(f"Authorization: Bearer {lab.owner.token}")
        places = [Path(sys.executable).parent, lab.postgres.binaries, os.environ["PATH"]]
        return {
            **os.environ,
            **lab.fleetd.environment,
            "HOME": str(self.folder),
            "PATH": os.pathsep.join(map(str, places)),
            "PGHOST": str(lab.postgres.sockets),
            "PGUSER": lab.postgres.user,
            "COLUMNS": "200",
        }

    @property
    def box(self):
        """The machine itself."""
        return self.fleet.lab.machines[self.life.spec.name]

    def records(self, kind: str, **query: object) -> list:
        """Records of the machine in NetBox, newest first."""
        found = self.fleet.lab.owner.get(f"plugins/fleet/{kind}/", machine_id=self.life.machine, **query)["results"]
        return sorted(found, key=lambda each: -each["id"])


def new_key(operator: Operator) -> dict:
    return operator.records("endorsement-keys", status="pending")[0]


VALUES: dict[str, Callable[[Operator], str]] = {
    "NETBOX": lambda o: o.fleet.lab.netbox.url,
    "NODE": lambda o: o.life.spec.name,
    "MACHINE": lambda o: str(o.life.machine),
    "DEVICE": lambda o: str(o.life.shown["device"]["id"]),
    "SERIAL": lambda o: o.box.spec.disk_serial,
    "KEY": lambda o: str(new_key(o)["id"]),
    "FINGERPRINT": lambda o: new_key(o)["public_hash"][:16],
    "OLD_KEY": lambda o: str(o.records("endorsement-keys", status="approved")[-1]["id"]),
    "BASELINE": lambda o: str(o.records("baselines", state="offered")[0]["id"]),
    "RUN": lambda o: o.records("runs")[0]["run_id"][:8],
    "SECRETS": lambda o: str(o.fleet.lab.fleetd.folder / "secrets"),
    "HEAD": lambda o: o.head,
    "BMC": lambda o: o.bmc,
    "SECRET": lambda o: f"bmc-{o.life.spec.name}-new",
}
"""What an operator reads somewhere and puts into a variable."""


# --- what is done by hand ---


def exchange_the_disk(operator):
    operator.box.off()
    operator.box.swap_disk(f"new{operator.life.spec.disk_serial}")


def exchange_the_tpm(operator):
    operator.box.off()
    operator.box.swap_tpm()


def the_bmc_dies(operator):
    operator.fleet.lab.bmcs[operator.life.spec.name].close()


def start_it_from_the_network(operator):
    operator.box.off()
    operator.box.boot_override("Pxe", persistent=False)
    operator.box.on()


def switch_it_off(operator):
    operator.box.off()


def a_new_bmc_is_in(operator):
    operator.bmc = operator.fleet.lab.put_bmc(
        operator.life.spec.name, operator.box, f"bmc-{operator.life.spec.name}-new"
    )


def the_old_firmware_is_back(operator):
    operator.box.off()
    operator.box.flash(operator.firmware)
    operator.box.on()


def the_machine_is_gone(operator):
    operator.box.off()
    operator.fleet.lab.bmcs[operator.life.spec.name].behaviour.ignore_resets = True


def lose_the_host(operator):
    """Back up as docs/how-to/restore.md says, then lose the processes, the keys and the database."""
    lab = operator.fleet.lab
    operator.head = lab.fleetd.command("audit", "verify").split("head ", 1)[1].split(";", 1)[0]
    lab.postgres.run("pg_dump", "-Fc", "-f", str(operator.folder / "fleetd.dump"), "fleetd")
    lab.fleetd.kill()
    lab.postgres.drop("fleetd")
    shutil.move(lab.fleetd.folder, operator.folder / "backup")


def put_the_files_back(operator):
    shutil.move(operator.folder / "backup", operator.fleet.lab.fleetd.folder)


HANDS = {
    "exchange the disk": exchange_the_disk,
    "exchange the TPM": exchange_the_tpm,
    "the BMC dies": the_bmc_dies,
    "start it from the network": start_it_from_the_network,
    "switch it off": switch_it_off,
    "a new BMC is in": a_new_bmc_is_in,
    "the old firmware is back": the_old_firmware_is_back,
    "the machine is gone": the_machine_is_gone,
    "the host is lost": lose_the_host,
    "put the files back": put_the_files_back,
}
STANDS_FOR = {"systemctl enable --now fleetd.target": lambda operator: operator.fleet.lab.fleetd.start()}
"""What a lab without an init does in place of a command."""


# --- the lab ---


@pytest.fixture(scope="module")
def fleet(make_fleet):
    """A lab with a class whose seed holds a token, and that needs no BMC."""
    return make_fleet(
        secrets={TOKEN: "the first token"},
        classes=lambda light: [
            {
                **lab_light(light.image, light.server, name=OPTIONAL, family="cloud-init-nocloud"),
                "boot": {"uefi": True, "bmc": "optional"},
                "seed": {
                    "template": "cloud-init-basic",
                    "secrets": [TOKEN],
                    "values": {"secret_files": {TOKEN: "/etc/join.token"}},
                },
            }
        ],
    )


@pytest.fixture(scope="module")
def lives(fleet):
    """A machine that nothing was asked of, and two that are in service."""
    found = {"new": Life.of(fleet), "plain": Life.of(fleet), "optional": Life.of(fleet, OPTIONAL)}

    def arrive(life):
        life.ask("provision")
        life.checked()

    with ThreadPoolExecutor(2) as owners:
        for arrived in [owners.submit(arrive, found[name]) for name in ("plain", "optional")]:
            arrived.result()
    return found


def flashed(operator):
    operator.box.off()
    operator.box.flash("FleetLab light 2")
    operator.box.on()


def changed_by_nobody(operator):
    operator.firmware = operator.box.firmware
    operator.box.off()
    operator.box.flash("FleetLab light of somebody")
    operator.box.on()


def with_a_token(operator):
    secret_file(operator.folder / TOKEN, "another token")


DAY = [
    (SHELL, "new", None),
    ("provision.md", "new", None),
    ("reprovision.md", "new", None),
    ("wipe.md", "new", None),
    ("retire.md", "new", None),
    ("firmware.md", "plain", flashed),
    ("unplanned-change.md", "plain", changed_by_nobody),
    ("replace-board.md", "plain", None),
    ("rotate-token.md", "optional", with_a_token),
    ("replace-disk.md", "optional", None),
    ("lost-bmc.md", "optional", None),
    ("rotate-ca.md", "plain", None),
    ("lost-host.md", "plain", None),
    ("lost-machine.md", "plain", None),
]
"""Each page, the machine that it is tried on, and what happened before; in an order in which each finds what it needs."""


def test_every_page_is_tried_and_says_when_what_and_what_then():
    marks = {step.words for page in PAGES.glob("*.md") for step in steps_of(page) if step.by_hand}
    tried = {page for page, _, _ in DAY} | {mark for mark in marks if mark.endswith(".md")}

    assert tried | {"index.md"} == {page.name for page in PAGES.glob("*.md")}
    assert {mark for mark in marks if not mark.endswith(".md")} == set(HANDS)
    index = (PAGES / "index.md").read_text()
    for page in tried:
        assert re.findall(r"^## (.*)$", (PAGES / page).read_text(), re.MULTILINE) == SECTIONS, page
        assert f"({page})" in index


@pytest.mark.parametrize(("page", "machine", "before"), DAY, ids=[page for page, _, _ in DAY])
def test_a_page_does_what_it_says(fleet, lives, page, machine, before, tmp_path):
    operator = Operator(fleet, lives[machine], tmp_path)
    if before is not None:
        before(operator)

    operator.follow(page)

    assert value_of(operator.life.shown["phase"]) not in {"failed", "quarantined"}
