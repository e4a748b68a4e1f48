"""No mutant of what tells a TPM from a forger goes unnoticed without an explanation."""

import subprocess
import tomllib

import pytest

from tests.conftest import CHECKOUT


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_every_mutant_is_noticed_or_explained():
    done = subprocess.run([CHECKOUT / "scripts" / "mutation"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_every_explanation_is_about_a_function_that_is_mutated():
    listed = tomllib.loads((CHECKOUT / "tests" / "mutation" / "survivors.toml").read_text())
    mutated = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["mutmut"]["only_mutate"]
    sources = {file for pattern in mutated for file in CHECKOUT.glob(pattern)}

    for each in listed["survivor"]:
        module = CHECKOUT.joinpath("fleetd", "core", *each["function"].split(".")[:2]).with_suffix(".py")
        assert module in sources, each["function"]
        text = " ".join(module.read_text().split())
        assert " ".join(each["line"].split()) in text, f"{each['function']}: {each['line']}"
        assert each["why"], each["function"]
