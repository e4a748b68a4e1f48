"""Every finding that fleetd can show is in one catalogue, with words for an owner."""

import pkgutil
import subprocess
import sys
from collections import Counter
from importlib import import_module

from fleetd.core import findings
from fleetd.core.findings import Finding, catalogue, codes_of
from fleetd.core.findings.netboot import AttestationFailed


def defined():
    """The findings of every module of the package, each where it is defined."""
    for found in pkgutil.iter_modules(findings.__path__):
        module = import_module(f"fleetd.core.findings.{found.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Finding) and value.__module__ == module.__name__:
                yield value


def test_the_catalogue_lists_the_findings_of_every_module():
    show = "from fleetd.core.findings import catalogue; print(*catalogue())"

    listed = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.split()

    assert {kind.code for kind in defined() if hasattr(kind, "code")} <= set(listed), "importing the package is enough"


def test_every_finding_has_a_code_of_words_and_a_docstring_of_its_own():
    for code, kind in catalogue().items():
        assert code == code.lower().replace("_", "-").strip("-"), code
        assert (kind.__doc__ or "").strip(), code
        assert kind.__doc__ != Finding.__doc__, code
        assert kind.sentence is not Finding.sentence, code
        assert kind.next_step is not Finding.next_step, code


def test_each_code_is_taken_once():
    taken = Counter(kind.code for kind in defined() if "code" in vars(kind))

    assert [code for code, times in taken.items() if times > 1] == []


def test_several_refusals_for_one_reason_name_it_once():
    refused = [{"code": "ek-second"}, {"code": "pcr"}, {"code": "ek-second"}, {}]

    failed = AttestationFailed(codes_of(refused))

    assert failed.codes == ("ek-second", "pcr", "")
    assert AttestationFailed(("ek-second", "pcr")).evidence() == {"codes": "ek-second, pcr"}
