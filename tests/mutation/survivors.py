"""Hold the mutants that no test noticed against the file that explains each of them.

Run from the folder where mutmut ran. Exit 0: every survivor is explained; 1: some are not, and are printed as the file
takes them.
"""

import difflib
import json
import re
import sys
import tomllib
from pathlib import Path

from mutmut.mutation.data import MutantLineSpans
from mutmut.stats import status_by_exit_code

EXPLAINED = Path(__file__).with_name("survivors.toml")
ALIVE = {"survived", "no tests", "suspicious"}

type Survivor = tuple[str, str, str]
"""Function, what stands in the source, what the mutant makes of it."""


def survivors(mutants: Path) -> list[Survivor]:
    """Return what mutmut's last run left alive, in the order of the sources."""
    found: list[Survivor] = []
    for meta in sorted(mutants.rglob("*.py.meta")):
        spans = MutantLineSpans.load(meta.relative_to(mutants).with_suffix(""))
        for name, code in json.loads(meta.read_text())["exit_code_by_key"].items():
            if status_by_exit_code[code] not in ALIVE:
                continue
            module, _, mangled = name.rpartition(".")
            function = mangled.rpartition("__mutmut_")[0]
            assert spans is not None
            original, mutant = spans.read_function_sources([f"{function}__mutmut_orig", mangled])
            before, after = changed(original.replace(f"{function}__mutmut_orig", "_"), mutant.replace(mangled, "_"))
            shown = function.removeprefix("x_").replace("xǁ", "").replace("ǁ", ".")
            found.append((f"{module.removeprefix('fleetd.core.')}.{shown}", before, after))
    return found


def changed(original: str, mutant: str) -> tuple[str, str]:
    """Return the lines that differ, each side as one text."""
    lines = list(difflib.ndiff(original.splitlines(), mutant.splitlines()))
    return side(lines, "- "), side(lines, "+ ")


def side(lines: list[str], mark: str) -> str:
    """Return the lines of one side."""
    return "\n".join(line[2:].strip() for line in lines if line.startswith(mark))


def main() -> int:
    """Print what is not explained; return the exit status."""
    listed = tomllib.loads(EXPLAINED.read_text())
    words = [re.compile(each["pattern"]) for each in listed["words"] if each["why"]]
    known = {
        (each["function"], each["line"], mutant)
        for each in listed["survivor"]
        if each["why"]
        for mutant in each["mutants"]
    }
    alive = [each for each in survivors(Path("mutants")) if not any(pattern.search(each[1]) for pattern in words)]
    unknown = [each for each in alive if each not in known]
    for function, line, mutant in unknown:
        sys.stdout.write(
            f"[[survivor]]\nfunction = {json.dumps(function)}\nline = {json.dumps(line)}\n"
            f'mutants = [{json.dumps(mutant)}]\nwhy = ""\n\n'
        )
    sys.stdout.write(
        f"# {len(alive)} mutants were noticed by no test, {len(unknown)} of them without an explanation; "
        f"{len(known - set(alive))} that are explained were noticed this time\n"
    )
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
