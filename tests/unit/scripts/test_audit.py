"""Known vulnerabilities: what fails a build, what is only said, and that silence of the source is not taken for health."""

import runpy
from pathlib import Path

AUDIT = runpy.run_path(str(Path(__file__).resolve().parents[3] / "scripts" / "audit.py"))


def hole(name, *fixes):
    return {"id": name, "fix_versions": list(fixes), "aliases": [], "description": ""}


def told(*packages):
    return AUDIT["read"]({"dependencies": list(packages)})


def test_only_a_vulnerability_that_a_newer_version_mends_fails_the_build():
    found = told(
        {"name": "one", "version": "1", "vulns": [hole("PYSEC-1", "1.1"), hole("PYSEC-2")]},
        {"name": "two", "version": "2", "vulns": []},
    )

    assert found.mended == ("one 1: PYSEC-1, mended in 1.1",)
    assert found.open == ("one 1: PYSEC-2",)
    assert found.judged == 2


def test_a_package_that_the_source_does_not_know_is_not_audited():
    found = told({"name": "one", "skip_reason": "not found"}, {"name": "two", "version": "2", "vulns": []})

    assert found.unknown == ("one",)
    assert found.judged == 1


def run_with(answers, monkeypatch, capsys):
    monkeypatch.setitem(AUDIT["main"].__globals__, "ask", lambda source, file: answers[source])
    return AUDIT["main"](), capsys.readouterr().out


def test_without_any_source_nothing_fails_and_it_is_said(monkeypatch, capsys):
    status, said = run_with({"pypi": "it knows none of 1 packages", "osv": "no route"}, monkeypatch, capsys)

    assert status == 0
    assert "NOTHING WAS AUDITED" in said
    assert "osv: no route" in said


def test_the_second_source_is_asked_where_the_first_gives_no_answer(monkeypatch, capsys):
    found = AUDIT["Audited"](3, (), ("one 1: PYSEC-1, mended in 1.1",), ())
    status, said = run_with({"pypi": "no route", "osv": found}, monkeypatch, capsys)

    assert status == 1
    assert "one 1: PYSEC-1, mended in 1.1" in said
    assert "3 packages by osv" in said
