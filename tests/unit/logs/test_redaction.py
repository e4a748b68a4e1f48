"""Every line is JSON, whoever wrote it, and no line shows a secret."""

import json
import logging

import pytest
import structlog

from fleetd.logs import log_as_json


@pytest.fixture(autouse=True)
def untouched_loggers():
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = before, level


def line(capsys, write) -> dict:
    log_as_json("info")
    write()
    (text,) = capsys.readouterr().err.splitlines()
    assert "HUSH" not in text
    return json.loads(text)


@pytest.mark.parametrize(
    "values",
    [
        {"password": "HUSH"},
        {"bmc_password": "HUSH"},
        {"Authorization": "HUSH"},
        {"ticket": "HUSH"},
        {"details": {"inner": [{"session_key": "HUSH"}]}},
        {"error": "cannot connect to postgresql://fleetd:HUSH@db/fleetd"},
        {"error": "GET /v1/config?uuid=1&code=HUSH&mac=2 failed"},
        {"headers": ["Authorization: Bearer nbt_HUSHHUSHHUSHHUSH"]},
        {"text": "-----BEGIN PRIVATE KEY-----\nHUSH\n-----END PRIVATE KEY-----"},
        {"text": "-----BEGIN EC PRIVATE KEY-----\nHUSH"},
    ],
)
def test_a_secret_is_hidden_by_its_name_or_by_its_form(values, capsys):
    written = line(capsys, lambda: structlog.get_logger().info("something", **values))

    assert written["event"] == "something"
    assert "(hidden)" in json.dumps(written)


def test_a_secret_in_an_exception_is_hidden(capsys):
    def fail():
        try:
            int("redis://:HUSH@127.0.0.1/0")
        except ValueError:
            structlog.get_logger().exception("failed")

    written = line(capsys, fail)

    assert "ValueError" in written["exception"]


def test_the_lines_of_libraries_are_json_and_redacted_too(capsys):
    # A name of its own: NetBox, where another test has loaded it into this process, silences every logger that was there.
    library = logging.getLogger("a_library.of_this_test")

    written = line(capsys, lambda: library.warning("no way to %s", "redis://:HUSH@host/0"))

    assert (written["level"], written["logger"]) == ("warning", "a_library.of_this_test")
    assert written["timestamp"]


def test_what_is_no_secret_stays(capsys):
    values = {"machine": 7, "run": "5f1e", "status_code": 403, "url": "https://fleetd.example.org:7443/v1/checks"}

    written = line(capsys, lambda: structlog.get_logger().info("code is only a word here", **values))

    assert {**written, **values} == written
    assert written["event"] == "code is only a word here"


def test_bound_ids_stand_in_every_line(capsys):
    def write():
        with structlog.contextvars.bound_contextvars(machine=7, run="5f1e"):
            structlog.get_logger().info("looked")

    assert {"machine": 7, "run": "5f1e"}.items() <= line(capsys, write).items()
