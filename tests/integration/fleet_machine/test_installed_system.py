"""The installed system: claiming the seed with ticket and quote, and the boot check from then on."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fleet_machine.actions import run_action
from fleet_machine.jws import ServiceKeys
from fleet_machine.seed.commands import run_boot_check, run_claim_seed, run_export_devid
from fleet_machine.seed.state import load_state
from tests.integration.fleet_machine.fleetd_double import MACHINE, RUN, b64, b64url, device_certificate, problem
from tests.integration.fleet_machine.surroundings import a_machine

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def ticket(tmp_path, tpm, fleetd):
    """The ticket file of a machine that was just installed; fleetd knows its LAK."""
    assert run_action("enroll", fleetd.environment(), a_machine(tmp_path / "hookos", tpm.tcti)) == 0
    fleetd.requests.clear()
    fleetd.seed_json = {
        "version": 1,
        "device": "server-1",
        "class": "lab-alpine",
        "profile": "worker",
        "addresses": [],
        "endpoints": {"fleetd": fleetd.url},
        "ca": fleetd.ca_pem,
        "certificates": {"ldevid": device_certificate(0xABC), "lak": device_certificate(0x0DEF), "chain": []},
        "devid": fleetd.ldevid,
        "machine": MACHINE,
        "run": RUN,
        "keys": b64(fleetd.jwks),
        "lak_unique": b64(fleetd.unique),
        "lak_algorithm": "p-256",
    }
    path = tmp_path / "ticket.json"
    content = {
        "machine": MACHINE,
        "run": RUN,
        "ticket": "one-shot",
        "url": fleetd.url,
        "ca": b64(fleetd.ca_pem.encode()),
        "keys": b64(fleetd.jwks),
        "lak_unique": b64(fleetd.unique),
        "lak_algorithm": "p-256",
    }
    path.write_text(json.dumps(content))
    tpm.power_cycle()
    return path


@pytest.fixture
def machine(tmp_path, tpm):
    return a_machine(tmp_path / "installed", tpm.tcti)


@pytest.fixture
def state(tmp_path):
    return tmp_path / "var"


@pytest.fixture
def installed(machine, ticket, state, fleetd):
    """A machine that has claimed its seed."""
    assert run_claim_seed(machine, {}, ticket, state) == 0, machine.console.lines
    fleetd.requests.clear()
    machine.clock.slept.clear()
    return machine


def test_the_seed_is_redeemed_and_kept_private(machine, ticket, state, fleetd):
    assert run_claim_seed(machine, {}, ticket, state) == 0, machine.console.lines

    assert json.loads((state / "seed.json").read_text()) == fleetd.seed_json
    assert load_state(state).serials() == ("abc", "def")
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}


def test_no_key_of_the_machine_is_on_its_disk(installed, state):
    kept = b"".join(path.read_bytes() for path in state.iterdir())

    assert b"PRIVATE KEY" not in kept
    assert b"one-shot" not in kept


def test_a_seed_that_was_claimed_is_not_asked_for_again(installed, ticket, state, fleetd):
    assert run_claim_seed(installed, {}, ticket, state) == 0
    assert fleetd.requests == []


def test_a_refused_ticket_that_is_burnt_ends_the_claim(machine, ticket, state, fleetd):
    fleetd.script["/v1/seeds/redeem"] = [problem(403, "The ticket was redeemed from another machine.", stop=True)]

    assert run_claim_seed(machine, {}, ticket, state) == 1
    assert "redeemed from another machine" in machine.console
    assert not (state / "state.json").exists()


def test_a_refusal_that_is_not_final_is_waited_out(machine, ticket, state, fleetd):
    fleetd.script["/v1/seeds/redeem"] = [problem(403, "not verified", headers={"Retry-After": "60"}), problem(404, "?")]

    assert run_claim_seed(machine, {}, ticket, state) == 0
    assert machine.clock.slept == [60.0, 30.0]


def test_a_lost_answer_is_asked_for_again(machine, ticket, state, fleetd):
    fleetd.script["/v1/seeds/redeem"] = ["hang up"]

    assert run_claim_seed(machine, {}, ticket, state) == 0


def test_a_seed_for_another_machine_is_not_taken(machine, ticket, state, fleetd):
    fleetd.seed_json["machine"] = MACHINE + 1

    assert run_claim_seed(machine, {}, ticket, state) == 1
    assert not state.exists()


def test_a_machine_without_ticket_and_seed_says_so(machine, state):
    assert run_claim_seed(machine, {}, None, state) == 1
    assert "no ticket" in machine.console


@pytest.fixture
def delivered(ticket, state, fleetd):
    """A machine whose seed cloud-init has put into its place: no ticket, no redemption."""
    ticket.unlink()
    state.mkdir()
    (state / "seed.json").write_text(json.dumps(fleetd.seed_json))
    return state


def test_a_seed_that_cloud_init_wrote_is_taken_as_it_stands_and_its_checks_pass(machine, delivered, fleetd):
    assert run_claim_seed(machine, {}, None, delivered) == 0, machine.console.lines
    assert fleetd.requests == []
    assert {path.stat().st_mode & 0o777 for path in delivered.iterdir()} == {0o600}

    assert run_boot_check(machine, {}, delivered, once=True) == 0, machine.console.lines


def test_a_delivered_seed_is_taken_once_and_renewed_certificates_stay(machine, delivered, fleetd):
    run_claim_seed(machine, {}, None, delivered)
    renewed = {"ldevid": device_certificate(0x123), "lak": device_certificate(0x456), "chain": []}
    fleetd.check_results = [{"result": "ok", "certificates": renewed}]
    run_boot_check(machine, {}, delivered, once=True)

    assert run_claim_seed(machine, {}, None, delivered) == 0
    assert load_state(delivered).serials() == ("123", "456")


@pytest.mark.parametrize("damage", [{"version": 2}, {"machine": None}, {"endpoints": {}}, {"keys": "?"}, {"run": "x"}])
def test_a_damaged_delivered_seed_is_refused_in_words(machine, delivered, fleetd, damage):
    (delivered / "seed.json").write_text(json.dumps({**fleetd.seed_json, **damage}))

    assert run_claim_seed(machine, {}, None, delivered) == 1
    assert "seed.json is" in machine.console
    assert not (delivered / "state.json").exists()


def test_the_ldevid_is_where_the_class_wants_it_and_stays_current(machine, ticket, state, fleetd, tmp_path):
    folder = tmp_path / "spire"
    fleetd.seed_json["devid_folder"] = str(folder)
    assert run_claim_seed(machine, {}, ticket, state) == 0, machine.console.lines
    first = (folder / "devid.pem").read_text()
    assert b64((folder / "devid.priv").read_bytes()) == fleetd.ldevid["private"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}

    renewed = {"ldevid": device_certificate(0x123), "lak": device_certificate(0x456), "chain": []}
    fleetd.check_results = [{"result": "ok", "certificates": renewed}]
    run_boot_check(machine, {}, state, once=True)
    assert (folder / "devid.pem").read_text() == renewed["ldevid"] != first


def test_the_seeds_of_these_tests_follow_the_published_schema(ticket, fleetd):
    jsonschema = pytest.importorskip("jsonschema")  # the distribution's own Python need not have it
    schema = json.loads((CHECKOUT / "docs/reference/seed.schema.json").read_text())

    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(fleetd.seed_json)] == []


def test_a_boot_check_proves_the_installed_system(installed, state, fleetd):
    assert run_boot_check(installed, {}, state, once=True) == 0, installed.console.lines

    (sent,) = [body for _m, path, body in fleetd.requests if path == "/v1/checks"]
    assert sent["certificates"] == ["abc", "def"]


def test_the_log_is_sent_only_when_it_is_asked_for(installed, state, fleetd):
    fleetd.send_log = False
    fleetd.check_results = [{"result": "log-needed", "next_check_in": 0}, {"result": "ok"}]

    assert run_boot_check(installed, {}, state, once=True) == 0
    sent = [body for _m, path, body in fleetd.requests if path == "/v1/checks"]
    assert ["log" in body for body in sent] == [False, True]


@pytest.mark.parametrize(("result", "status"), [("drifted", 3), ("failed", 4)])
def test_the_exit_status_of_one_check_says_what_fleetd_made_of_it(installed, state, fleetd, result, status):
    fleetd.check_results = [{"result": result, "findings": [{"code": "pcr-changed", "message": "PCR 0 changed."}]}]

    assert run_boot_check(installed, {}, state, once=True) == status
    assert "PCR 0 changed." in installed.console


def test_new_certificates_that_ride_on_a_check_are_kept_and_named_in_the_next(installed, state, fleetd):
    renewed = {"ldevid": device_certificate(0x123), "lak": device_certificate(0x456), "chain": []}
    fleetd.check_results = [{"result": "ok", "certificates": renewed}]

    run_boot_check(installed, {}, state, once=True)
    run_boot_check(installed, {}, state, once=True)

    sent = [body for _m, path, body in fleetd.requests if path == "/v1/checks"]
    assert sent[1]["certificates"] == ["123", "456"]
    assert (state / "ldevid.pem").read_text() == renewed["ldevid"]


def jwks_of(*keys):
    def jwk(key):
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": b64url(raw)}

    return {"keys": [jwk(key) for key in keys]}


def pins(state):
    return load_state(state).service({}).keys.kids()


def test_the_next_service_key_is_kept_and_named_in_the_next_check_and_believed_when_it_signs(installed, state, fleetd):
    old, new = fleetd.signer, Ed25519PrivateKey.generate()
    fleetd.check_results = [{"result": "ok", "keys": jwks_of(old, new)}]
    run_boot_check(installed, {}, state, once=True)
    assert len(pins(state)) == 2

    fleetd.signer = new
    fleetd.check_results = [{"result": "ok", "keys": jwks_of(new)}]
    assert run_boot_check(installed, {}, state, once=True) == 0, installed.console.lines

    sent = [body for _m, path, body in fleetd.requests if path == "/v1/checks"]
    assert [len(body["keys"]) for body in sent] == [1, 2]
    assert list(pins(state)) == [ServiceKeys.from_jwks(json.dumps(jwks_of(new)).encode()).kids()[0]]


def test_a_running_check_believes_the_next_key_without_a_restart(installed, state, fleetd):
    old, new = fleetd.signer, Ed25519PrivateKey.generate()
    installed.clock.sleep = StopAfter(installed.clock, 2)
    fleetd.check_results = [{"result": "ok", "keys": jwks_of(old, new)}, {"result": "ok"}]
    fleetd.script["/v1/checks"] = [None, lambda: setattr(fleetd, "signer", new)]

    with pytest.raises(KeyboardInterrupt):
        run_boot_check(installed, {}, state, once=False)

    assert "could not be made" not in installed.console


@pytest.mark.parametrize(
    "answer",
    [
        {"challenge": "another challenge"},
        {"keys": {"keys": []}},
        {"keys": "nonsense"},
    ],
)
def test_service_keys_that_would_lock_the_machine_out_are_not_taken(installed, state, fleetd, answer):
    before = pins(state)
    stranger = Ed25519PrivateKey.generate()
    fleetd.check_results = [{"result": "ok", "keys": jwks_of(stranger), **answer}]

    assert run_boot_check(installed, {}, state, once=True) == 0

    assert pins(state) == before


def test_a_set_without_the_key_that_signed_the_answer_is_not_taken(installed, state, fleetd):
    before = pins(state)
    fleetd.check_results = [{"result": "ok", "keys": jwks_of(Ed25519PrivateKey.generate())}]

    run_boot_check(installed, {}, state, once=True)

    assert pins(state) == before
    assert "not taken" in installed.console


class StopAfter:
    """Ends an endless loop at its n-th wait."""

    def __init__(self, clock, waits):
        self.clock, self.waits = clock, waits

    def __call__(self, seconds):
        self.clock.slept.append(seconds)
        if len(self.clock.slept) >= self.waits:
            raise KeyboardInterrupt


def test_checks_go_on_at_the_pace_that_fleetd_tells_with_one_request_each(installed, state, fleetd):
    installed.clock.sleep = StopAfter(installed.clock, 3)
    fleetd.check_results = [{"result": "ok", "next_check_in": 100}] * 3

    with pytest.raises(KeyboardInterrupt):
        run_boot_check(installed, {}, state, once=False)

    assert installed.clock.slept == [100.0, 100.0, 100.0]
    assert [path for _m, path, _b in fleetd.requests] == ["/v1/challenges", *["/v1/checks"] * 3]


def test_an_expired_token_costs_one_more_request(installed, state, fleetd):
    installed.clock.sleep = StopAfter(installed.clock, 2)
    fleetd.check_results = [{"result": "ok", "next_check_in": 3600}] * 2

    with pytest.raises(KeyboardInterrupt):
        run_boot_check(installed, {}, state, once=False)

    assert [path for _m, path, _b in fleetd.requests] == ["/v1/challenges", "/v1/checks"] * 2


def test_a_refused_check_is_said_and_the_next_one_starts_afresh(installed, state, fleetd):
    installed.clock.sleep = StopAfter(installed.clock, 2)
    fleetd.script["/v1/checks"] = [problem(403, "quarantined", headers={"Retry-After": "7"})]

    with pytest.raises(KeyboardInterrupt):
        run_boot_check(installed, {}, state, once=False)

    assert installed.clock.slept[0] == 7.0
    assert "quarantined" in installed.console


def test_a_token_that_is_out_of_date_is_replaced_within_one_check(installed, state, fleetd):
    fleetd.script["/v1/checks"] = [problem(409, "the class asks for other PCRs now", headers={"Retry-After": "1"})]

    assert run_boot_check(installed, {}, state, once=True) == 0


def test_a_check_without_a_claimed_seed_says_what_is_missing(machine, state):
    assert run_boot_check(machine, {}, state, once=True) == 1
    assert "claim-seed has to run first" in machine.console


def test_the_devid_is_exported_as_spire_wants_it(installed, state, tmp_path, fleetd):
    assert run_export_devid(installed, state, tmp_path / "spire") == 0

    assert b64((tmp_path / "spire/devid.pub").read_bytes()) == fleetd.ldevid["public"]
    assert b64((tmp_path / "spire/devid.priv").read_bytes()) == fleetd.ldevid["private"]
    assert b"BEGIN CERTIFICATE" in (tmp_path / "spire/devid.pem").read_bytes()
