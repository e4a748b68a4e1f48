"""Which modules the program loads for which command."""

import subprocess
import sys

import pytest

from fleetd.cli import SERVICES, _service, program


def commands_of(app):
    return {command.name or command.callback.__name__ for command in app.registered_commands}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_found_in_the_module_that_is_loaded_for_it(service):
    assert service in commands_of(program(service))


@pytest.mark.parametrize(
    ("words", "service"),
    [
        (["beat"], "beat"),
        (["--config", "serve", "worker", "--concurrency=2"], "worker"),
        (["--config=x.toml", "serve"], "serve"),
        (["--config"], ""),
        (["--help"], ""),
        (["--install-completion"], ""),
        (["machines", "show", "serve"], ""),
        ([], ""),
    ],
)
def test_the_service_is_the_first_word_that_is_no_option(words, service):
    assert _service(words) == service


@pytest.mark.parametrize(
    ("service", "absent"),
    [
        ("fleetd.cli.work fleetd.broker", "fleetd.tasks fleetd.wiring fleetd.http fleetd.tinkerbell.api kubernetes"),
        ("fleetd.cli.work fleetd.tinkerbell.reflector", "fleetd.tasks fleetd.wiring fleetd.http fastapi"),
        ("fleetd.cli.listeners", "fleetd.tasks kubernetes"),
    ],
    ids=["beat", "watch", "serve"],
)
def test_a_process_does_not_load_what_another_one_does(service, absent):
    """Each holds its own copy of what it loads: a worker's parts are 30 MB."""
    asked = f"import {service.replace(' ', ', ')}, sys; print(*(set({absent.split()!r}) & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "\n"
