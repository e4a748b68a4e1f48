"""Write exchange.json anew: `python -m tests.vectors`. A change of its values is a change of the protocol's version."""

import json
from pathlib import Path
from uuid import UUID

from fleetd.core.attestation import transcript as t

RUN = UUID("00112233-4455-6677-8899-aabbccddeeff")
ENROLLMENT = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")


def exchange() -> dict:
    names = (bytes.fromhex("000b") + b"\x02" * 32, bytes.fromhex("000b") + b"\x01" * 32)
    secrets = {names[0]: b"s" * 32, names[1]: b"t" * 32}
    given = {
        "token": "dG9rZW4",
        "ticket": "dGlja2V0",
        "ek_names": [name.hex() for name in names],
        "lak_public": b"lak".hex(),
        "ldevid_public": b"ldevid".hex(),
        "ldevid_private": b"private".hex(),
        "facts": b'{"dmi": {}}'.hex(),
        "log": b"log".hex(),
        "serials": ["0B", "0a"],
        "findings": b"[]".hex(),
        "pins": ["kid-b", "kid-a"],
        "nonce": (b"n" * 32).hex(),
        "secrets": {name.hex(): secret.hex() for name, secret in secrets.items()},
        "server_key": (b"k" * 32).hex(),
        "run": str(RUN),
        "enrollment": str(ENROLLMENT),
        "path": f"/v1/runs/{RUN}/seed",
        "counter": 7,
        "body": b"{}".hex(),
    }
    claims = t.EnrollmentClaims("dG9rZW4", names, b"lak", b"ldevid", b"private", b'{"dmi": {}}', b"log")
    bare = t.EnrollmentClaims("dG9rZW4", names, b"lak", b"ldevid", b"private", b'{"dmi": {}}', None)
    enroll = claims.transcript()
    redeem = t.redeem_transcript("dG9rZW4", "dGlja2V0")
    session = t.session_key(b"k" * 32, ENROLLMENT)
    wanted = {
        "enrollment_transcript": enroll,
        "enrollment_transcript_without_log": bare.transcript(),
        "check_transcript": t.check_transcript("dG9rZW4", ["0B", "0a"], b"[]", b"log"),
        "check_transcript_with_pins": t.check_transcript("dG9rZW4", ["0B", "0a"], b"[]", b"log", ["kid-b", "kid-a"]),
        "check_transcript_with_no_pins": t.check_transcript("dG9rZW4", ["0B", "0a"], b"[]", b"log", []),
        "check_transcript_without_log_and_findings": t.check_transcript("dG9rZW4", [], b"", None),
        "redeem_transcript": redeem,
        **{f"extra_data {label.value.decode()}": t.extra_data(label, b"n" * 32, enroll) for label in t.Label},
        "lak_unique_of_run": t.lak_unique(RUN),
        "lak_unique_of_ek": t.lak_unique(names[0]),
        "activation": t.activation_proof(secrets, enroll),
        "seal_key": t.seal_key(secrets, enroll),
        "redeem_key": t.redeem_key(b"s" * 32, redeem),
        "session_key": session,
        "seed_key": t.seed_key(session, f"/v1/runs/{RUN}/seed", 7),
        "call_mac": t.call_mac(session, "POST", f"/v1/runs/{RUN}/seed", b"{}", 7),
        **{f"binding {purpose.value}": t.envelope_binding(purpose, ENROLLMENT, RUN) for purpose in t.Purpose},
        "binding without run": t.envelope_binding(t.Purpose.RESULT, ENROLLMENT, None),
    }
    return {"given": given, "wanted": {name: value.hex() for name, value in wanted.items()}}


if __name__ == "__main__":
    Path(__file__).with_name("exchange.json").write_text(json.dumps(exchange(), indent=2) + "\n")
