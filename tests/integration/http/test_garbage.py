"""Whatever is sent to whatever path: a problem of the 4xx kind, never a failure of the service."""

import json
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetd.http.machine import machine_app
from tests.integration.http.machines import a_declaration, approved

PROVING = ("/v1/challenges", "/v1/enrollments", "/v1/seeds/redeem", "/v1/checks")
RUN = tuple(f"/v1/runs/{uuid.UUID(int=1)}/{call}" for call in ("leave", "events", "seed", "ticket", "reboot"))
OPEN = ("/v1/config", "/v1/crl/devid", "/v1/crl/../../etc", "/v1/ca/x", "/v1/nothing", "/v1/runs/x/leave", "/")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def assert_problem(answer):
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= answer.json().keys()


@relaxed
@given(path=st.sampled_from(PROVING + RUN[:4]), body=st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_problem(service, path, body):
    assert_problem(service.client.post(path, content=body))


@relaxed
@given(path=st.sampled_from(PROVING + RUN[:4]), value=json_values)
def test_any_json_is_refused_as_a_problem(service, path, value):
    assert_problem(service.client.post(path, content=json.dumps(value).encode("utf-8", "surrogatepass")))


@relaxed
@given(
    name=st.sampled_from(
        ["token", "activation", "eks", "lak", "ldevid", "quote", "certify", "pcrs", "facts", "log", "version"]
    ),
    value=json_values,
)
def test_an_enrollment_with_any_field_replaced_is_a_problem_or_an_answer(service, name, value):
    if not hasattr(service, "body"):
        machine = service.machine()
        service.run(a_declaration(keys=(approved(machine.ek),)))
        service.body = machine.enrollment_body(machine.challenge())
    body = {**service.body, name: value}

    answer = service.client.post("/v1/enrollments", content=json.dumps(body).encode("utf-8", "surrogatepass"))

    if (name == "log" and value is None) or answer.status_code != 200:
        assert_problem(answer)


@relaxed
@given(data=st.data())
def test_public_areas_made_of_any_bytes_are_refused_as_a_problem(service, data):
    raw = data.draw(st.binary(min_size=0, max_size=400))
    from tests.integration.http.machines import text

    body = {"version": 1, "purpose": "enroll", "eks": [{"public": text(raw)}], "lak": text(raw)}

    assert_problem(service.client.post("/v1/challenges", json=body))


@relaxed
@given(cut=st.integers(0, 600), byte=st.integers(0, 255), data=st.data())
def test_bent_public_areas_are_refused_or_challenged(service, cut, byte, data):
    from tests.integration.http.machines import text

    machine = service.machine()
    raw = bytearray(machine.ek.public.raw)
    raw[cut % len(raw)] = byte
    body = {
        "version": 1,
        "purpose": "enroll",
        "eks": [{"public": text(bytes(raw))}],
        "lak": text(machine.lak.public.raw),
    }

    answer = service.client.post("/v1/challenges", json=body)

    if answer.status_code != 201:
        assert_problem(answer)


def test_every_method_on_every_path_is_a_problem(service):
    for path in PROVING + RUN + OPEN:
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert_problem(service.client.request(method, path, content=b"\xff" if method != "GET" else None))


@pytest.mark.parametrize("path", ["/v1/challenges", "/v1/runs/00000000-0000-0000-0000-000000000001/events"])
def test_a_body_beyond_64_kib_is_refused_unread(service, path):
    answer = service.client.post(path, content=b"x" * 70_000)

    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/v1/enrollments", "/v1/checks", "/v1/seeds/redeem"])
def test_a_body_beyond_a_mebibyte_is_refused_unread(service, path):
    assert service.client.post(path, content=b"x" * (1024 * 1024 + 1)).status_code == 413


def test_deeply_nested_json_is_a_problem(service):
    for path in PROVING:
        assert_problem(service.client.post(path, content=b"[" * 30_000 + b"]" * 30_000))


@pytest.mark.parametrize("depth", [5, 4000])
def test_deeply_nested_facts_are_a_problem_or_cut(service, depth):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    facts = b'{"disks": ' + b"[" * depth + b"]" * depth + b"}"

    answer = machine.enroll(facts=facts)

    assert answer.status_code in {200, 400}


def test_any_query_for_a_talos_config_finds_nothing(service):
    code = "code=" + "A" * 43
    for query in ("code=", "code=x", code, "code=%00", code + "&uuid=x&serial=%ff&mac=zz", "%%%"):
        assert_problem(service.client.get(f"/v1/config?{query}"))


def test_the_largest_numbers_are_a_problem_or_answered(service):
    for purpose in ({"purpose": "check"}, {"purpose": "redeem", "run": str(uuid.uuid4())}):
        for machine in (2**31, 2**53, 2**53 + 1, 2**63, 10**40):
            answer = service.client.post("/v1/challenges", json={"version": 1, "machine": machine, **purpose})
            assert answer.status_code in {201, 400, 404}


def test_another_version_is_refused(service):
    ask = {"version": 2, "purpose": "check", "machine": 7}

    assert_problem(service.client.post("/v1/challenges", json=ask))


def test_unknown_fields_are_ignored(service):
    ask = {"version": 1, "purpose": "check", "machine": 7, "colour": "blue"}

    assert service.client.post("/v1/challenges", json=ask).status_code == 201


def test_the_published_document_names_every_path_and_body(service):
    document = service.client.get("/openapi.json").json()

    assert set(document["paths"]) >= {*PROVING, "/v1/runs/{run}/leave", "/v1/config", "/v1/crl/{ca}"}
    schemas = document["components"]["schemas"]
    assert {"ChallengeAsk", "Enroll", "Redeem", "Check", "Leave", "Event", "Problem"} <= schemas.keys()


def test_one_address_may_not_call_without_end(service):
    from fastapi.testclient import TestClient

    from fleetd.http.machine import MachineParts

    app = machine_app(MachineParts(service.exchange, lambda kind, name: None, calls_per_minute=5))
    with TestClient(app) as client:
        answers = [client.post("/v1/challenges", json={}) for _ in range(7)]

    assert [answer.status_code for answer in answers] == [400] * 5 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1
