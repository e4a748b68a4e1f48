"""schemathesis: calls made from the published OpenAPI document never end in a 500, and answers are what it says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from fleetd.core.lifecycle import states
from fleetd.http.machine import MachineParts, machine_app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CALLS = 40
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


def test_any_call_of_the_document_is_answered_as_it_says(service):
    service.enrolled(state=states.Attesting)
    app = machine_app(MachineParts(service.exchange, lambda kind, name: None, calls_per_minute=10_000_000))
    probed = []

    for found in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=CALLS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def probe(case):
            answer = case.call()
            case.validate_response(answer, checks=CHECKS)
            if answer.status_code >= 400:
                assert {"title", "status"} <= answer.json().keys()

        probe()
        probed.append(operation.label)

    assert len(probed) == len({route.path for route in app.routes if route.path.startswith(("/v1", "/healthz"))})
