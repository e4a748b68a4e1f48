"""schemathesis: calls made from NetBox's OpenAPI document of the plugin, and calls that break it, never end in a 500, and
answers are what it says.
"""

import json
import uuid
from datetime import UTC, datetime

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from users.models import Token

from netbox_fleet import models

from .builders import a_class, a_device, a_key, a_machine, a_user

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

CALLS = 8
PREFIX = "/api/plugins/fleet/"
FILTERS_OF_NETBOX = {
    "time zone displacement out of range": "created__lte=2026-01-01T00:00:00%2B17:39",
    "Cannot use None as a query value": "facility__regex=null",
    "invalid regular expression": "facility__regex=(",
}
"""What NetBox's own filters end with in a 500, and what makes those of its sites do so."""
ANY_OBJECT = {"type": "object", "additionalProperties": {}}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def authorized(database):
    """The headers of somebody who may do everything."""
    token = Token(user=a_user(superuser=True))
    token.save()
    return {"Authorization": token.get_auth_header_prefix() + token.token}


@pytest.fixture
def same_calls(monkeypatch):
    """Make the calls independent of what else is loaded: Hypothesis tries constants of the project's code, too."""
    monkeypatch.setattr(providers, "_get_local_constants", providers.Constants)
    providers.CONSTANTS_CACHE.cache.clear()


@pytest.fixture
def document(authorized):
    """NetBox's OpenAPI document, with the calls of the plugin only.

    From here on requests keep the test's connection, and so its transaction, as in Django's own test client.
    """
    told = Client(headers=authorized).get("/api/schema/?format=json")
    assert told.status_code == 200, told.content[:500]
    whole = as_netbox_answers(json.loads(told.content))
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield {**whole, "paths": {path: calls for path, calls in whole["paths"].items() if path.startswith(PREFIX)}}
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def records():
    """One record of each kind, by the word in its path."""
    machine = a_machine("probed")
    who = {"machine": machine, "machine_name": machine.node_name}
    made = {
        "machines": machine,
        "machine-classes": a_class(),
        "endorsement-keys": a_key(machine),
        "attestations": models.Attestation.objects.create(attestation_id=uuid.uuid4(), passed=True, time=NOW, **who),
        "device-certificates": models.DeviceCertificate.objects.create(
            kind="lak", serial="1f", fingerprint="ab" * 32, not_before=NOW, not_after=NOW, **who
        ),
        "runs": models.Run.objects.create(run_id=uuid.uuid4(), kind="provision", started=NOW, **who),
        "boot-checks": models.BootCheck.objects.create(machine=machine, time=NOW, result="ok"),
        "baselines": models.Baseline.objects.create(machine=machine, digest="ab" * 32, time=NOW),
        "statements": models.Statement.objects.create(
            statement_id=uuid.uuid4(), kind="release", by="anna", reason="repaired", time=NOW, **who
        ),
    }
    return {word: record.pk for word, record in made.items()}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as said", "otherwise"])
def test_any_call_of_the_document_is_answered_as_it_says_and_never_with_a_500(
    mode, document, authorized, same_calls, record_property
):
    app, there = get_wsgi_application(), records()
    probed, answers = [], {}

    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        word = operation.path.removeprefix(PREFIX).split("/")[0]
        cases = operation.as_strategy(generation_mode=mode) if can_be(operation, mode) else None
        if cases is None:
            continue

        def ask(case, known, operation=operation, word=word):
            if known and "id" in case.path_parameters:
                case.path_parameters["id"] = there[word]
            with transaction.atomic():
                told = case.call(app=app, base_url="http://netbox", headers=authorized)
                transaction.set_rollback(True)
            answers[told.status_code] = answers.get(told.status_code, 0) + 1
            held(case, told, operation.definition.raw["responses"])

        each_of(cases, ask)
        probed.append(operation.label)

    record_property("operations", len(probed))
    record_property("answers", dict(sorted(answers.items())))
    assert {label.split(PREFIX)[1].split("/")[0] for label in probed} >= (set(there) | {"nodes", "reports"})


@pytest.mark.parametrize(("words", "query"), FILTERS_OF_NETBOX.items())
def test_what_is_excused_is_netboxs_own(authorized, words, query):
    told = Client(headers=authorized, raise_request_exception=False).get(f"/api/dcim/sites/?{query}")

    assert told.status_code == 500
    assert words in told.content.decode()


def test_what_is_let_be_is_netboxs_own(authorized):
    client = Client(headers=authorized)
    whole = json.loads(client.get("/api/schema/?format=json").content)
    said, calls = whole["components"]["schemas"], whole["paths"]["/api/dcim/sites/"]
    refusals = calls["post"]["responses"]["400"]["content"]["application/json"]["schema"]["oneOf"]

    assert "nullable" not in said["Device"]["properties"]["airflow"]
    assert client.get(f"/api/dcim/devices/{a_device().pk}/").json()["airflow"] is None
    assert "nullable" not in said["PaginatedSiteList"]["properties"]["count"]
    assert client.get("/api/dcim/sites/?start=1").json()["count"] is None
    nowhere = client.get("/api/dcim/racks/1.5/elevation/")
    assert (nowhere.status_code, nowhere.headers["content-type"].split(";")[0]) == (404, "text/html")
    assert ANY_OBJECT in refusals
    assert {"$ref": "#/components/schemas/BulkOperationError"} in refusals


def each_of(cases, ask):
    @given(case=cases, known=st.booleans())
    @settings(
        max_examples=CALLS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    def probe(case, known):
        ask(case, known)

    probe()


def can_be(operation, mode):
    """Tell whether there is something to say otherwise: a call without a parameter or body is always as said."""
    return mode is GenerationMode.POSITIVE or bool(operation.body or operation.query or operation.path_parameters)


def held(case, told, documented):
    """Hold an answer against the document, where that is the plugin's; what NetBox's own makes of it is named here."""
    if told.status_code == 500 and case.method == "GET" and any(words in told.text for words in FILTERS_OF_NETBOX):
        return
    case.validate_response(told, checks=[not_a_server_error])
    nowhere = told.status_code == 404 and told.headers["content-type"][0].startswith("text/html")
    if nowhere or (told.status_code >= 400 and str(told.status_code) not in documented):
        # Those of the actions are documented, of NetBox's own calls few; an id with a dot makes an address of no view.
        refuses_in_words(told)
        return
    checks = [status_code_conformance, content_type_conformance]
    part_only = {"fields", "omit", "brief"} & set(case.query or {})
    # One call of NetBox's own makes one object or many, and is documented for one.
    own = "/" not in case.operation.path.removeprefix(PREFIX).rstrip("/")
    many = own and isinstance(case.body, list) and told.status_code < 400
    if not part_only and not many:
        checks.append(response_schema_conformance)
    case.validate_response(told, checks=checks)


def as_netbox_answers(schema):
    """Let be what NetBox answers, of its own models too, and its document does not say.

    A choice that is empty is null, and so is the count of a list that is read from a `start` on. A refusal may be of both
    forms of which it is said to have one: the first is any object.
    """
    if isinstance(schema, list):
        return [as_netbox_answers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    answered = {key: as_netbox_answers(each) for key, each in schema.items()}
    if schema.get("type") == "object" and set(schema.get("properties", {})) == {"value", "label"}:
        answered["nullable"] = True
    if set(schema.get("properties", {})) == {"count", "next", "previous", "results"}:
        answered["properties"]["count"]["nullable"] = True
    if ANY_OBJECT in schema.get("oneOf", ()):
        answered["anyOf"] = answered.pop("oneOf")
    return answered


def refuses_in_words(told):
    assert told.status_code in {400, 403, 404, 405, 406, 409, 415}, told.text
    if told.headers["content-type"][0].startswith("application/json"):
        assert json.loads(told.content), "a refusal says why"
