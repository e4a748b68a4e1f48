"""A small fleetd for tests of the client: it speaks docs/reference/machine-api.md and checks what it is sent.

It knows no policy; a test tells it what to answer. Runs on Python 3.11 with cryptography 38.
"""

import base64
import datetime as dt
import hashlib
import hmac
import http.server
import ipaddress
import json
import os
import ssl
import threading
import uuid
from collections import defaultdict

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID
from tpm2_pytss.types import TPM2B_PUBLIC, TPMT_SIGNATURE
from tpm2_pytss.utils import make_credential

from fleet_machine import keys, transcript
from fleet_machine.jws import thumbprint
from fleet_machine.keys import Binding, Purpose
from fleet_machine.tpm.keys import name_of

UTC = dt.UTC
MACHINE = 42
RUN = "00112233-4455-6677-8899-aabbccddeeff"


def b64(value):
    return base64.b64encode(value).decode()


def unb64(text):
    return base64.b64decode(text, validate=True)


def b64url(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def problem(status, detail, *, headers=None, **fields):
    """A scripted refusal."""
    return (
        status,
        {"type": "about:blank", "title": "refused", "status": status, "detail": detail, **fields},
        headers or {},
    )


class FleetdDouble:
    """Answers on loopback; `script[path]` holds answers that come before the real ones.

    `cuts[path]` holds after how many bytes of their bodies the next answers break off.
    """

    def __init__(self, *, valid=(-1, 365), time_offset=0.0):
        self.signer = Ed25519PrivateKey.generate()
        self.time_offset = time_offset
        self.script = defaultdict(list)
        self.cuts = defaultdict(list)
        self.kept = {}
        self.requests = []
        self.events = []
        self.tokens = {}
        self.session_key = os.urandom(32)
        self.enrollment = ""
        self.counter = 0
        self.approved = True
        self.pcrs = {"bank": "sha256", "select": list(range(10))}
        self.send_log = True
        self.stored_ldevid = None
        self.seed_tar = b""
        self.ticket_body = {}
        self.seed_json = {}
        self.reboot = False
        self.result_machine = MACHINE
        self.ca_pem, certificate, key = certificates(valid)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        fd = os.memfd_create("server.pem")
        os.write(fd, certificate + key)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
        os.close(fd)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server.server_address[1]}"

    @property
    def jwk(self):
        raw = self.signer.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": b64url(raw)}

    @property
    def jwks(self):
        return json.dumps({"keys": [self.jwk]}).encode()

    def environment(self, **more):
        return {
            "FLEET_URL": self.url,
            "FLEET_CA": b64(self.ca_pem.encode()),
            "FLEET_KEYS": b64(self.jwks),
            "FLEET_RUN": RUN,
            "FLEET_MACHINE": str(MACHINE),
            "FLEET_PATIENCE": "60",
            **more,
        }

    def now(self):
        return dt.datetime.now(UTC) + dt.timedelta(seconds=self.time_offset)

    def signed(self, typ, payload, *, signer=None, status=200):
        header = {"alg": "EdDSA", "typ": typ, "kid": thumbprint(self.jwk)}
        text = f"{b64url(json.dumps(header).encode())}.{b64url(json.dumps(payload).encode())}"
        return status, {"jws": f"{text}.{b64url((signer or self.signer).sign(text.encode()))}"}, {}

    # --- what the calls do ---

    def challenge_fields(self, purpose):
        token = {"id": str(uuid.uuid4()), "nonce": os.urandom(32), "purpose": purpose}
        text = b64url(os.urandom(48))
        self.tokens[text] = token
        return token, {
            "challenge": token["id"],
            "token": text,
            "nonce": b64(token["nonce"]),
            "pcrs": self.pcrs,
            "issued": stamp(self.now()),
            "expires": stamp(self.now() + dt.timedelta(minutes=5)),
            "send_log": self.send_log,
        }

    def post_challenges(self, body):
        purpose = body["purpose"]
        if purpose == "check":
            _token, fields = self.challenge_fields("check")
            return self.signed("fleet-challenge+jwt", fields, status=201)
        if purpose == "redeem":
            token, fields = self.challenge_fields("redeem")
            fields |= {"lak_unique": b64(self.unique), "credentials": [self.credential(token, self.eks[0], self.lak)]}
            return self.signed("fleet-challenge+jwt", fields, status=201)
        self.unique = transcript.lak_unique(uuid.UUID(RUN))
        if "lak" not in body:
            return self.signed("fleet-challenge+jwt", {"lak_unique": b64(self.unique)}, status=201)
        self.lak = unb64(body["lak"])
        self.eks = [unb64(ek["public"]) for ek in body["eks"]]
        token, fields = self.challenge_fields("enroll")
        offered = [self.credential(token, ek, self.lak) for ek in self.eks if can_make_credential(ek)]
        fields |= {"lak_unique": b64(self.unique), "credentials": offered}
        if self.stored_ldevid:
            fields["ldevid"] = self.stored_ldevid
        return self.signed("fleet-challenge+jwt", fields, status=201)

    def credential(self, token, ek, lak):
        secret = os.urandom(32)
        token.setdefault("secrets", {})[name_of(ek)] = secret
        public = TPM2B_PUBLIC.unmarshal(len(ek).to_bytes(2, "big") + ek)[0]
        blob, encrypted = make_credential(public, secret, name_of(lak))
        return {"ek_name": b64(name_of(ek)), "blob": b64(blob.marshal()), "secret": b64(encrypted.marshal())}

    def post_enrollments(self, body):
        token = self.tokens.pop(body["token"])
        log = unb64(body["log"]) if "log" in body else None
        claims = transcript.EnrollmentClaims(
            body["token"],
            tuple(name_of(unb64(ek["public"])) for ek in body["eks"]),
            unb64(body["lak"]),
            unb64(body["ldevid"]["public"]),
            unb64(body["ldevid"]["private"]),
            unb64(body["facts"]),
            log,
        )
        made = claims.transcript()
        assert hmac.compare_digest(unb64(body["activation"]), keys.activation_proof(token["secrets"], made))
        self.check_signed(body["quote"], claims.lak_public, transcript.Label.ENROLL_QUOTE, token, made)
        self.check_signed(body["certify"], claims.lak_public, transcript.Label.ENROLL_CERTIFY, token, made)
        assert list(body["pcrs"]["sha256"]) == [str(index) for index in self.pcrs["select"]]
        self.facts = json.loads(claims.facts)
        self.ldevid = body["ldevid"]
        if not self.approved:
            fields = {"state": "waiting", "reason": "ek-unknown", "message": "A person has to approve this TPM.",
                      "fingerprint": "ab:cd", "retry_after": 15}  # fmt: skip
            return self.signed("fleet-result+jwt", fields, status=202)
        self.enrollment, self.counter = token["id"], 0
        inner = {"enrollment": token["id"], "run": RUN, "machine": self.result_machine, "node_name": "node-1",
                 "session_key": b64(self.session_key)}  # fmt: skip
        key = keys.seal_key(token["secrets"], made)
        sealed = keys.seal_envelope(
            key, os.urandom(12), json.dumps(inner).encode(), Binding(Purpose.RESULT, token["id"], RUN)
        )
        return self.signed(
            "fleet-result+jwt", {"state": "verified", "enrollment": token["id"], "run": RUN, "sealed": b64(sealed)}
        )

    def post_redeem(self, body):
        token = self.tokens.pop(body["token"])
        made = transcript.redeem_transcript(body["token"], body["ticket"])
        self.check_signed(body["quote"], self.lak, transcript.Label.REDEEM, token, made)
        (secret,) = token["secrets"].values()
        sealed = keys.seal_envelope(
            keys.redeem_key(secret, made), os.urandom(12), json.dumps(self.seed_json).encode(),
            Binding(Purpose.REDEEM, token["id"], RUN),
        )  # fmt: skip
        return self.signed("fleet-seed+jwt", {"run": RUN, "challenge": token["id"], "sealed": b64(sealed)})

    def post_checks(self, body):
        token = self.tokens.pop(body["token"])
        log = unb64(body["log"]) if "log" in body else None
        made = transcript.check_transcript(
            body["token"], body["certificates"], unb64(body.get("findings", "")), log, body.get("keys")
        )
        self.check_signed(body["quote"], self.lak, transcript.Label.CHECK, token, made)
        outcome = self.check_results.pop(0) if self.check_results else {"result": "ok"}
        self.send_log = outcome["result"] == "log-needed"
        _token, following = self.challenge_fields("check")
        return self.signed(
            "fleet-result+jwt",
            {
                "machine": MACHINE,
                "challenge": token["id"],
                "findings": [],
                "next": following,
                "next_check_in": 1800,
                "server_time": stamp(self.now()),
                **outcome,
            },
        )

    check_results: list = []

    def check_signed(self, signed, lak, label, token, made):
        attest, extra = unb64(signed["attest"]), transcript.extra_data(label, token["nonce"], made)
        assert attest[:4] == b"\xff\x54\x43\x47"
        at = 6 + 2 + int.from_bytes(attest[6:8], "big")
        assert attest[at : at + 34] == b"\0\x20" + extra
        public = TPM2B_PUBLIC.unmarshal(len(lak).to_bytes(2, "big") + lak)[0].publicArea
        TPMT_SIGNATURE.unmarshal(unb64(signed["signature"]))[0].verify_signature(public, attest)

    def run_call(self, method, path, body, headers, raw):
        if headers.get("Fleet-Enrollment") != self.enrollment:
            return problem(401, "unknown session")
        counter = int(headers["Fleet-Counter"])
        assert headers["Fleet-MAC"] == keys.call_mac(self.session_key, method, path, raw, counter)
        if counter <= self.counter:
            return problem(401, "counter seen before")
        self.counter = counter
        name = path.rpartition("/")[2]
        if name == "events":
            self.events.append(body)
            return 204, None, {}
        if name == "leave":
            now = self.now()
            return self.signed("fleet-leave+jwt", {"run": RUN, "action": body["action"], "disk_serial": body["disk_serial"],
                "issued": stamp(now), "start_before": stamp(now + dt.timedelta(minutes=5))})  # fmt: skip
        if name == "reboot":
            return 200, {"reboot": self.reboot}, {}
        purpose = Purpose.SEED if name == "seed" else Purpose.TICKET
        plain = self.seed_tar if name == "seed" else json.dumps(self.ticket_body).encode()
        sealed = keys.seal_envelope(
            keys.seed_key(self.session_key, path, counter),
            os.urandom(12),
            plain,
            Binding(purpose, self.enrollment, RUN),
        )
        return self.signed("fleet-seed+jwt", {"run": RUN, "enrollment": self.enrollment, "sealed": b64(sealed)})

    def answer(self, method, path, headers, raw):
        body = json.loads(raw) if raw else None
        self.requests.append((method, path, body))
        if self.script[path]:
            scripted = self.script[path].pop(0)
            if callable(scripted):
                scripted = scripted()
            if scripted is not None:
                return scripted
        if path.startswith("/v1/runs/"):
            return self.run_call(method, path, body, headers, raw)
        calls = {
            "/v1/challenges": self.post_challenges,
            "/v1/enrollments": self.post_enrollments,
            "/v1/seeds/redeem": self.post_redeem,
            "/v1/checks": self.post_checks,
        }
        if path == "/v1/challenges":
            return calls[path](body)
        if raw not in self.kept:  # as fleetd does: the same bytes get the same answer
            self.kept[raw] = calls[path](body)
        return self.kept[raw]

    def _handler(self):
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    answer = double.answer(self.command, self.path, self.headers, raw)
                except Exception as error:  # noqa: BLE001 - what the client sent is at fault
                    answer = problem(422, f"{type(error).__name__}: {error}", stop=True)
                if answer == "hang up":
                    self.close_connection = True
                    return
                status, body, headers = answer
                sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                cuts = double.cuts[self.path]
                self.close_connection = self.close_connection or bool(cuts)
                self.wfile.write(sent[: cuts.pop(0)] if cuts else sent)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *args):
                pass

        return Handler


def can_make_credential(ek):
    """Whether tpm2-pytss 1.2 can do it too: not for an EK of the high range, whose symmetric cipher is AES-256."""
    return int.from_bytes(ek[2:4], "big") == 0x000B


def stamp(moment):
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def certificates(valid):
    """A CA and a server certificate for 127.0.0.1; `valid` in days from now."""
    now = dt.datetime.now(UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Lab CA")])
    day = dt.timedelta(days=1)

    def built(subject, public, extensions, first, last):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(first)
            .not_valid_after(last)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(ca_key, hashes.SHA256())

    ca = built(
        name,
        ca_key.public_key(),
        [(x509.BasicConstraints(ca=True, path_length=0), True)],
        now - 9999 * day,
        now + 9999 * day,
    )
    server = built(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleetd")]),
        key.public_key(),
        [(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)],
        now + valid[0] * day,
        now + valid[1] * day,
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ca.public_bytes(pem).decode(), server.public_bytes(pem), private


def device_certificate(serial):
    """A self-signed certificate of a given serial number, PEM; nobody checks its issuer here."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node-1")])
    now = dt.datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(serial).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1))
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def digest(content):
    return hashlib.sha256(content).hexdigest()
