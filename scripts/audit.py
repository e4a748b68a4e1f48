"""Known vulnerabilities in what fleetd is installed with: pip-audit over requirements/service.txt.

Exit status: 0 none that a newer version mends, or no source of advisories could be reached, which is said; 1 some.
`pip-audit` takes a package that its source does not know for one without vulnerabilities; here that counts as not audited.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
SOURCES = ("pypi", "osv")
PROBE = REQUIREMENTS / "uv.txt"
"""One package: whether a source can be reached shows within seconds."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What a source told of some packages."""

    judged: int
    unknown: tuple[str, ...]
    mended: tuple[str, ...]
    """Vulnerabilities that a newer version does not have."""
    open: tuple[str, ...]
    """Vulnerabilities that no version mends yet."""


def read(told: dict[str, Any]) -> Audited:
    """Read pip-audit's JSON."""
    packages = told["dependencies"]
    found = [(package, hole) for package in packages for hole in package.get("vulns", [])]
    return Audited(
        judged=sum("skip_reason" not in package for package in packages),
        unknown=tuple(package["name"] for package in packages if "skip_reason" in package),
        mended=tuple(
            f"{package['name']} {package['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions'])}"
            for package, hole in found
            if hole["fix_versions"]
        ),
        open=tuple(
            f"{package['name']} {package['version']}: {hole['id']}"
            for package, hole in found
            if not hole["fix_versions"]
        ),
    )


def ask(source: str, requirements: Path) -> Audited | str:
    """Audit a requirements file by one source; return the words of the failure where it gave no answer."""
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", source, "--format", "json"]
    command += ["--progress-spinner", "off", "--timeout", "5", "--disable-pip", "--require-hashes", "-r"]
    try:
        done = subprocess.run([*command, str(requirements)], capture_output=True, text=True, check=False, timeout=600)
    except subprocess.TimeoutExpired:
        return "no answer in 600 s"
    try:
        found = read(json.loads(done.stdout))
    except ValueError:
        return (done.stderr.strip().splitlines() or [f"pip-audit ended with {done.returncode}"])[-1][:300]
    return found if found.judged else f"it knows none of {len(found.unknown)} packages"


def main() -> int:
    """Audit by the first source that answers."""
    failures = []
    for source in SOURCES:
        probed = ask(source, PROBE)
        found = probed if isinstance(probed, str) else ask(source, REQUIREMENTS / "service.txt")
        if isinstance(found, str):
            failures.append(f"{source}: {found}")
            continue
        for line in found.mended:
            print(f"audit: {line}: run `scripts/lock --upgrade`")
        for line in found.open:
            print(f"audit: {line}, mended nowhere yet")
        if found.unknown:
            print(f"audit: NOT AUDITED, unknown to {source}: {', '.join(found.unknown)}")
        print(f"audit: {found.judged} packages by {source}: {len(found.mended)} vulnerabilities with a mended version")
        return int(bool(found.mended))
    print("audit: NOTHING WAS AUDITED, no source of advisories answers:", *failures, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
