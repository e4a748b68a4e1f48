"""fleetd's machine listener over HTTPS, and a machine with a software TPM that has measured a boot."""

import hashlib
import socket
import threading
import time
from dataclasses import replace

import uvicorn
from sqlalchemy import select

from fleet_machine.actions import run_action
from fleetd.app.exchange import ExchangeSettings
from fleetd.core.declaration import DeclaredKey
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.http.machine import MachineParts, machine_app
from fleetd.store.events import EventRow
from tests.integration.fleet_machine.fleetd_double import b64, certificates
from tests.integration.fleet_machine.image import ImageServer, build_image
from tests.integration.http import machines
from tests.unit.attestation.evidence import a_boot

NUMBER = 7


class BootLog:
    """The log of a boot whose measurements are in the TPM."""

    def __init__(self, tpm):
        from tpm2_pytss import ESAPI
        from tpm2_pytss.constants import ESYS_TR, TPM2_ALG
        from tpm2_pytss.types import TPML_DIGEST_VALUES, TPMT_HA, TPMU_HA

        self.builder = a_boot()
        esys = ESAPI(tpm.tcti)
        for pcr, digest in extensions(self.builder.bytes()):
            values = TPML_DIGEST_VALUES([TPMT_HA(hashAlg=TPM2_ALG.SHA256, digest=TPMU_HA(sha256=digest))])
            esys.pcr_extend(getattr(ESYS_TR, f"PCR{pcr}"), values)
        esys.close()

    def read(self):
        return self.builder.bytes()


def extensions(log):
    """Yield (PCR, SHA-256 digest) of each event that extends."""
    at = 32 + int.from_bytes(log[28:32], "little")
    while at < len(log):
        pcr, kind, count = (int.from_bytes(log[at + i : at + i + 4], "little") for i in (0, 4, 8))
        at += 12
        digest = b""
        for _ in range(count):
            algorithm = int.from_bytes(log[at : at + 2], "little")
            size = {4: 20, 0xB: 32, 0xC: 48}[algorithm]
            digest = log[at + 2 : at + 2 + size] if algorithm == 0xB else digest
            at += 2 + size
        at += 4 + int.from_bytes(log[at : at + 4], "little")
        if kind != 3:
            yield pcr, digest


class Listening:
    """fleetd's machine listener on loopback, and what a machine is given of it."""

    def __init__(self, service, folder, **changes):
        """`changes` replace parts of the exchange."""
        self.service = service
        self.ca_pem, certificate, key = certificates((-1, 30))
        pem = folder / "server.pem"
        pem.write_bytes(certificate + key)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.socket.getsockname()[1]}"
        settings = ExchangeSettings(public_url=self.url, ca_pem=self.ca_pem)
        self.exchange = replace(service.exchange, settings=settings, **changes)
        app = machine_app(MachineParts(self.exchange, lambda kind, name: None, calls_per_minute=10_000))
        config = uvicorn.Config(app, ssl_certfile=str(pem), ssl_keyfile=str(pem), log_level="critical", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def environment(self, run, **more):
        return {
            "FLEET_URL": self.url,
            "FLEET_CA": b64(self.ca_pem.encode()),
            "FLEET_KEYS": b64(self.exchange.speaker.jwks()),
            "FLEET_RUN": str(run),
            "FLEET_MACHINE": str(NUMBER),
            "FLEET_DISK_SERIAL": "lab0001",
            "FLEET_PATIENCE": "30",
            **more,
        }

    def close(self):
        self.server.should_exit = True
        self.thread.join(10)


class Facts:
    def dmi(self):
        from fleet_machine.facts import Dmi

        return Dmi(f"SN{NUMBER}", "0f0e0d0c-0b0a-0908-0706-050403020100", "Lab", "Light", "1")

    def macs(self):
        return (f"52:54:00:00:00:{NUMBER:02x}",)


def keys_of(machine):
    """The endorsement keys of the machine's TPM, as a person has approved them."""
    with machine.tpm() as opened:
        return tuple(
            DeclaredKey(
                id=at, public_hash=hashlib.sha256(ek.public).hexdigest(), certificate_sha256="", status="approved"
            )
            for at, ek in enumerate(opened.endorsement_keys(), 1)
        )


def begin(service, machine, **changes):
    declaration = machines.a_declaration(NUMBER, keys=keys_of(machine), **changes)
    return service.run(declaration, IntentKind.PROVISION, states.Attesting)


def events(service, action):
    with service.sessions() as session:
        rows = session.scalars(select(EventRow).order_by(EventRow.seq)).all()
        return [row.kind for row in rows if row.action == action and row.kind != "progress"]


def install(service, fleetd, machine, tpm, folder):
    """Take a machine from power-on to its first boot from disk; return the machine as it is then."""
    run = begin(service, machine)
    image = build_image(folder / "image.raw")
    server = ImageServer()
    server.files["image"] = image
    environment = fleetd.environment(
        run,
        FLEET_ERASE="deep",
        FLEET_FAMILY="alpine-image",
        FLEET_IMAGE_URL=server.url("image"),
        FLEET_IMAGE_SHA256=hashlib.sha256(image).hexdigest(),
        FLEET_IMAGE_SIZE=str(len(image)),
    )
    assert run_action("enroll", environment, machine) == 0, machine.console.lines
    for action, state in [
        ("guard", states.Erasing),
        ("erase", states.Erasing),
        ("write-image", states.Installing),
        ("write-seed", states.Installing),
        ("set-boot", states.Installing),
        ("finish", states.Installing),
    ]:
        service.move(run, state)
        assert run_action(action, environment, machine) == 0, machine.console.lines
        assert events(service, action) == ["started", "finished"]
    server.close()
    service.move(run, states.Configuring)
    tpm.power_cycle()
    return replace(machine, run_folder=folder / "installed", event_log=BootLog(tpm))
