"""A machine whose TPM is made of keys in memory, and the store's rows that an owner's wishes leave there."""

import hashlib
import hmac
import json
import struct
import uuid
from base64 import b64decode, b64encode, urlsafe_b64decode
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Any

from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.x509 import load_pem_x509_certificate

from fleetd.app.rows import put_state
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.credential import kdfa
from fleetd.core.attestation.endorsement import POLICIES
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    RsaParameters,
    Scheme,
    SymmetricParameters,
    marshal_public,
    parse_public,
)
from fleetd.core.attestation.transcript import (
    EnrollmentClaims,
    Label,
    Purpose,
    activation_proof,
    call_mac,
    check_transcript,
    envelope_binding,
    extra_data,
    redeem_key,
    redeem_transcript,
    seal_key,
    seed_key,
)
from fleetd.core.declaration import Address, Declaration, DeclaredKey, Disk, Intent, Interface
from fleetd.core.lifecycle import states
from fleetd.core.names import DiskSerial, IntentKind, MachineId, Phase, RunId, mac_address
from fleetd.core.records import to_record
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow
from tests.unit.attestation.evidence import LogBuilder, PretendTpmKey, QuoteParts, a_boot, certify, ecc_key, ldevid_key

EK_ATTRIBUTES = (
    Attribute.FIXED_TPM
    | Attribute.FIXED_PARENT
    | Attribute.SENSITIVE_DATA_ORIGIN
    | Attribute.ADMIN_WITH_POLICY
    | Attribute.RESTRICTED
    | Attribute.DECRYPT
)
POLICY_A = bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
assert POLICY_A in POLICIES[Algorithm.SHA256]


def text(raw: bytes) -> str:
    return b64encode(raw).decode()


class PretendEk:
    """An endorsement key in memory, which activates credentials as a TPM does."""

    def __init__(self) -> None:
        self.private = rsa.generate_private_key(65537, 2048)
        raw = marshal_public(
            Algorithm.RSA,
            EK_ATTRIBUTES,
            RsaParameters(SymmetricParameters(Algorithm.AES, 128, Algorithm.CFB), Scheme(Algorithm.NULL), 2048, 0),
            self.private.public_key().public_numbers().n.to_bytes(256),
            auth_policy=POLICY_A,
        )
        self.public = parse_public(raw)
        self.hash = hashlib.sha256(raw).hexdigest()

    def activate(self, blob: bytes, secret: bytes, name: bytes) -> bytes:
        oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), b"IDENTITY\0")
        seed = self.private.decrypt(secret[2:], oaep)
        size = struct.unpack(">H", blob[2:4])[0]
        integrity, hidden = blob[4 : 4 + size], blob[4 + size :]
        key = kdfa("sha256", seed, b"INTEGRITY", b"", b"", 256)
        if not hmac.compare_digest(hmac.digest(key, hidden + name, "sha256"), integrity):
            raise ValueError("TPM_RC_INTEGRITY")
        decryptor = Cipher(AES(kdfa("sha256", seed, b"STORAGE", name, b"", 128)), CFB(b"\0" * 16)).decryptor()
        return (decryptor.update(hidden) + decryptor.finalize())[2:]


@lru_cache
def pretend_ek(number: int) -> PretendEk:
    """Key generation is slow: each number is one TPM for all tests."""
    return PretendEk()


def mac_of(machine: int) -> str:
    return f"52:54:00:00:{machine >> 8:02x}:{machine & 255:02x}"


def address_of(machine: int) -> str:
    return str(IPv4Address("192.0.2.0") + machine)


def a_declaration(machine: int = 7, **changes: Any) -> Declaration:
    values: dict[str, Any] = {
        "machine": MachineId(machine),
        "node_name": f"node-{machine}",
        "machine_class": "lab-alpine",
        "disk": Disk(DiskSerial("lab0001")),
        "extra_disks": (),
        "bmc_address": "",
        "bmc_secret": "",
        "phase": Phase.DECLARED,
        "device_name": f"node-{machine}",
        "device_status": "planned",
        "device_serial": f"SN{machine}",
        "site": "lab",
        "role": "node",
        "primary_ip4": f"{address_of(machine)}/24",
        "primary_ip6": "",
        "interfaces": (Interface("eth0", (mac_address(mac_of(machine)),)),),
        "addresses": (Address(f"{address_of(machine)}/24", "eth0", "", "192.0.2.1"),),
        "keys": (),
        "tags": (),
    }
    return Declaration(**{**values, **changes})


def approved(ek: PretendEk, **changes: Any) -> DeclaredKey:
    return DeclaredKey(**{"id": 1, "public_hash": ek.hash, "certificate_sha256": "", "status": "approved", **changes})


def put_machine(session: Any, declaration: Declaration, now: datetime) -> None:
    session.merge(
        MachineRow(
            id=declaration.machine,
            node_name=declaration.node_name,
            machine_class=declaration.machine_class,
            declaration=to_record(declaration),
            declared_at=now,
            created_at=now,
        )
    )


def put_run(
    session: Any, declaration: Declaration, kind: IntentKind, state: type[states.State], now: datetime
) -> RunId:
    run = RunId(uuid.uuid4())
    intent = Intent(run, kind, True, "anna", now, DiskSerial("lab0001"))
    declared = replace(declaration, intent=intent)
    put_machine(session, declared, now)
    session.flush()
    row = RunRow(id=run, machine_id=declaration.machine, kind=kind.value, orders=to_record(declared), opened_at=now)
    put_state(row, state(now, now + timedelta(hours=1)))
    session.add(row)
    machine = session.get(MachineRow, declaration.machine)
    machine.run_id, machine.run_open = run, True
    return run


def move_run(session: Any, run: RunId, state: type[states.State], now: datetime) -> None:
    put_state(session.get(RunRow, run), state(now, now + timedelta(hours=1)))


@dataclass
class PretendMachine:
    """The machine's side of the exchange, as docs/reference/machine-api.md says it."""

    client: Any
    keys: Ed25519PublicKey
    machine: int = 7
    ek: PretendEk = field(default_factory=lambda: pretend_ek(0))
    siblings: tuple[PretendEk, ...] = ()
    """Further EKs of the same TPM."""
    certificates: dict[str, bytes] = field(default_factory=dict)
    """What NV holds as the certificate of an EK, by the hash of its public area."""
    lak: PretendTpmKey = field(default_factory=ecc_key)
    ldevid: PretendTpmKey = field(default_factory=ldevid_key)
    log: LogBuilder = field(default_factory=a_boot)
    clock: int = 1_000_000
    resets: int = 5
    counter: int = 0
    enrollment: str = ""
    session_key: bytes = b""
    result: dict[str, Any] = field(default_factory=dict)
    pinned: dict[str, Ed25519PublicKey] | None = None
    """Service keys by thumbprint, of a client that tells them; None of one that does not."""
    serials: list[str] = field(default_factory=list)

    def opened(self, answer: Any, typ: str) -> dict[str, Any]:
        head, body, signature = answer.json()["jws"].split(".")
        header = json.loads(_decoded(head))
        key = self.keys if self.pinned is None else self.pinned[header["kid"]]
        key.verify(_decoded(signature), f"{head}.{body}".encode())
        assert (header["alg"], header["typ"]) == ("EdDSA", typ)
        return json.loads(_decoded(body))

    @property
    def eks(self) -> dict[bytes, PretendEk]:
        return {ek.public.name(): ek for ek in (self.ek, *self.siblings)}

    def offered(self) -> list[dict[str, Any]]:
        return [
            {"public": text(ek.public.raw)}
            | ({"certificate": text(self.certificates[ek.hash])} if ek.hash in self.certificates else {})
            for ek in self.eks.values()
        ]

    def facts(self, **changes: Any) -> bytes:
        facts = {
            "dmi": {"serial": f"SN{self.machine}", "uuid": str(uuid.UUID(int=self.machine << 64 | 77))},
            "macs": [mac_of(self.machine)],
            "disks": [{"name": "vda", "serial": "LAB0001", "size": 1 << 30, "sector_size": 512}],
            "tpm": {"manufacturer": "IBM", "model": "SW", "version": "1"},
            "client": "test",
        }
        return json.dumps({**facts, **changes}).encode()

    def challenge(self) -> dict[str, Any]:
        ask = {"version": 1, "purpose": "enroll", "eks": self.offered()}
        first = self.client.post("/v1/challenges", json=ask)
        assert first.status_code == 201, first.text
        self.opened(first, "fleet-challenge+jwt")
        second = self.client.post("/v1/challenges", json={**ask, "lak": text(self.lak.public.raw)})
        assert second.status_code == 201, second.text
        return self.opened(second, "fleet-challenge+jwt")

    def secrets(self, challenge: dict[str, Any]) -> dict[bytes, bytes]:
        name = self.lak.public.name()
        return {
            (ek := b64decode(item["ek_name"])): self.eks[ek].activate(
                b64decode(item["blob"]), b64decode(item["secret"]), name
            )
            for item in challenge["credentials"]
        }

    def quote(self, challenge: dict[str, Any], label: Label, transcript: Any) -> dict[str, str]:
        pcrs = challenge["pcrs"]
        selection = PcrSelection.of(Bank(pcrs["bank"]), *pcrs["select"])
        extra = extra_data(label, b64decode(challenge["nonce"]), transcript)
        attest, signature = QuoteParts(
            self.lak, self.log.pcrs, selection, extra, clock=(self.clock, self.resets, 2, 1)
        ).signed()
        return {"attest": text(attest), "signature": text(signature)}

    def pcrs(self, challenge: dict[str, Any]) -> dict[str, dict[str, str]]:
        bank = challenge["pcrs"]["bank"]
        return {bank: {str(i): self.log.pcrs[Bank(bank)][i].hex() for i in challenge["pcrs"]["select"]}}

    def enrollment_body(self, challenge: dict[str, Any], facts: bytes | None = None) -> dict[str, Any]:
        facts = self.facts() if facts is None else facts
        blob, log = b"\x01" * 126, self.log.bytes()
        claims = EnrollmentClaims(
            challenge["token"],
            tuple(self.eks),
            self.lak.public.raw,
            self.ldevid.public.raw,
            blob,
            facts,
            log,
        )
        transcript = claims.transcript()
        secrets = self.secrets(challenge)
        extra = extra_data(Label.ENROLL_CERTIFY, b64decode(challenge["nonce"]), transcript)
        attest, signature = certify(self.lak, self.ldevid.public, extra)
        self.key = seal_key(secrets, transcript)
        return {
            "version": 1,
            "token": challenge["token"],
            "activation": text(activation_proof(secrets, transcript)),
            "eks": self.offered(),
            "lak": text(self.lak.public.raw),
            "ldevid": {"public": text(self.ldevid.public.raw), "private": text(blob)},
            "quote": self.quote(challenge, Label.ENROLL_QUOTE, transcript),
            "certify": {"attest": text(attest), "signature": text(signature)},
            "pcrs": self.pcrs(challenge),
            "facts": text(facts),
            "log": text(log),
        }

    def enroll(self, **changes: Any) -> Any:
        return self.send_enrollment(self.enrollment_body(self.challenge(), **changes))

    def send_enrollment(self, body: dict[str, Any]) -> Any:
        answer = self.client.post("/v1/enrollments", json=body)
        if answer.status_code == 200:
            outer = self.opened(answer, "fleet-result+jwt")
            run = uuid.UUID(outer["run"]) if "run" in outer else None
            enrollment = uuid.UUID(outer["enrollment"])
            inner = unsealed(self.key, outer["sealed"], Purpose.RESULT, enrollment, run)
            self.result = json.loads(inner)
            self.enrollment, self.session_key = outer["enrollment"], b64decode(self.result["session_key"])
        return answer

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        self.counter += 1
        raw = b"" if body is None else json.dumps(body).encode()
        mac = call_mac(self.session_key, method, path, raw, self.counter).hex()
        made = {"Fleet-Enrollment": self.enrollment, "Fleet-Counter": str(self.counter), "Fleet-MAC": mac}
        return self.client.request(method, path, content=raw, headers={**made, **headers})

    def sealed_call(self, path: str, purpose: Purpose) -> bytes:
        answer = self.call("POST", path, {})
        assert answer.status_code == 200, answer.text
        outer = self.opened(answer, "fleet-seed+jwt")
        key = seed_key(self.session_key, path, self.counter)
        return unsealed(key, outer["sealed"], purpose, uuid.UUID(outer["enrollment"]), uuid.UUID(outer["run"]))

    def redemption(self, ticket: dict[str, Any], facts: bytes | None = None) -> dict[str, Any]:
        ask = {"version": 1, "purpose": "redeem", "machine": ticket["machine"], "run": ticket["run"]}
        answer = self.client.post("/v1/challenges", json=ask)
        assert answer.status_code == 201, answer.text
        challenge = self.opened(answer, "fleet-challenge+jwt")
        (secret,) = self.secrets(challenge).values()
        transcript = redeem_transcript(challenge["token"], ticket["ticket"])
        self.key = redeem_key(secret, transcript)
        return {
            "version": 1,
            "token": challenge["token"],
            "ticket": ticket["ticket"],
            "quote": self.quote(challenge, Label.REDEEM, transcript),
            "pcrs": self.pcrs(challenge),
            "facts": text(self.facts() if facts is None else facts),
            "log": text(self.log.bytes()),
        }

    def redeem(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.post("/v1/seeds/redeem", json=body)
        assert answer.status_code == 200, answer.text
        outer = self.opened(answer, "fleet-seed+jwt")
        challenge, run = uuid.UUID(outer["challenge"]), uuid.UUID(outer["run"])
        return json.loads(unsealed(self.key, outer["sealed"], Purpose.REDEEM, challenge, run))

    def check_challenge(self) -> dict[str, Any]:
        ask = {"version": 1, "purpose": "check", "machine": self.machine}
        answer = self.client.post("/v1/challenges", json=ask)
        assert answer.status_code == 201, answer.text
        return self.opened(answer, "fleet-challenge+jwt")

    def check_body(
        self, challenge: dict[str, Any], serials: list[str], findings: bytes | None = None
    ) -> dict[str, Any]:
        log = self.log.bytes() if challenge["send_log"] else None
        pins = None if self.pinned is None else sorted(self.pinned)
        transcript = check_transcript(challenge["token"], serials, findings or b"", log, pins)
        body = {
            "version": 1,
            "token": challenge["token"],
            "machine": self.machine,
            "quote": self.quote(challenge, Label.CHECK, transcript),
            "pcrs": self.pcrs(challenge),
            "certificates": serials,
        }
        if log is not None:
            body["log"] = text(log)
        if findings is not None:
            body["findings"] = text(findings)
        if pins is not None:
            body["keys"] = pins
        return body

    def check(self, challenge: dict[str, Any] | None = None, serials: list[str] | None = None) -> dict[str, Any]:
        answer = self.client.post(
            "/v1/checks", json=self.check_body(challenge or self.check_challenge(), serials or [])
        )
        assert answer.status_code == 200, answer.text
        return self.opened(answer, "fleet-result+jwt")

    def live_on(self, challenge: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check as an installed system does: with the certificates and pins that it has, keeping those that it is given."""
        told = self.check(challenge, self.serials)
        if "certificates" in told:
            pems = (told["certificates"]["ldevid"], told["certificates"]["lak"])
            self.serials = sorted(f"{load_pem_x509_certificate(pem.encode()).serial_number:x}" for pem in pems)
        if "keys" in told:
            self.pinned = pins_of(told["keys"])
        return told


def pins_of(jwks: dict[str, Any]) -> dict[str, Ed25519PublicKey]:
    return {jwk["kid"]: Ed25519PublicKey.from_public_bytes(_decoded(jwk["x"])) for jwk in jwks["keys"]}


def unsealed(key: bytes, sealed: str, purpose: Purpose, enrollment: uuid.UUID, run: uuid.UUID | None) -> bytes:
    raw = b64decode(sealed)
    return AESGCM(key).decrypt(raw[:12], raw[12:], envelope_binding(purpose, enrollment, run))


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def noon() -> datetime:
    return datetime(2026, 6, 1, 12, tzinfo=UTC)
