"""The real client on a real software TPM against the real listener: from the first challenge to the boot check."""

import json
import threading
import time
import uuid
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import uvicorn
from sqlalchemy import select

from fleet_machine.actions import run_action
from fleet_machine.runfolder import RunFolder
from fleet_machine.seed.commands import run_boot_check, run_claim_seed
from fleet_machine.seed.state import load_state
from fleetd.ca.signer import service_key
from fleetd.ca.tree import Tree, keep_server_certificate
from fleetd.core.attestation.transcript import Purpose
from fleetd.core.declaration import Interface
from fleetd.core.lifecycle import states
from fleetd.core.names import mac_address
from fleetd.host import SystemRandom
from fleetd.http.machine import MachineParts, machine_app
from fleetd.http.tls import FollowedTls
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.machines import MachineRow
from tests.integration.fleet_machine.surroundings import a_machine
from tests.integration.http import machines
from tests.integration.http.test_serve import free_port
from tests.swtpm import start_swtpm


@pytest.fixture(scope="module")
def tpm(tmp_path_factory):
    with start_swtpm(tmp_path_factory.mktemp("tpm")) as running:
        yield running


class Live:
    """The listener on a port, with the clock of the host."""

    def __init__(self, service, folder: Path) -> None:
        from dataclasses import replace

        self.service = service
        service.clock.now = lambda: datetime.now(UTC)
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        tree = Tree(folder / "ca")
        keep_server_certificate(tree, ["127.0.0.1"], service.clock.now(), SystemRandom())
        self.ca = (folder / "ca" / "root.pem").read_text()
        self.keys = service.exchange.speaker.jwks()
        self.exchange = replace(
            service.exchange, settings=replace(service.exchange.settings, public_url=self.url, ca_pem=self.ca)
        )
        app = machine_app(MachineParts(self.exchange, lambda kind, name: None))
        config = uvicorn.Config(app, "127.0.0.1", port, log_level="warning", lifespan="off")
        config.load()
        config.ssl = FollowedTls(*tree.server_files, service.clock.now).context
        self.server = uvicorn.Server(config)
        threading.Thread(target=self.server.run, daemon=True).start()
        while not self.server.started:
            time.sleep(0.05)
        self.key = service_key(tree.service_key_file)

    def environment(self, run) -> dict[str, str]:
        return {
            "FLEET_URL": self.url,
            "FLEET_CA": b64encode(self.ca.encode()).decode(),
            "FLEET_KEYS": b64encode(self.keys).decode(),
            "FLEET_RUN": str(run),
            "FLEET_MACHINE": "1",
            "FLEET_PATIENCE": "60",
        }

    def approve(self) -> None:
        with self.service.sessions.begin() as session:
            record = dict(session.get(MachineRow, 1).declaration)
            record["keys"] = [
                {"id": n, "public_hash": row.public_hash, "certificate_sha256": "", "status": "approved"}
                for n, row in enumerate(session.scalars(select(EndorsementKeyRow)))
            ]
            session.get(MachineRow, 1).declaration = record

    def ticket(self, machine) -> dict:
        """Fetch the ticket as the write-seed action does."""
        held = RunFolder(machine.run_folder).session()
        pretend = machines.PretendMachine(httpx.Client(base_url=self.url, verify=False), self.key.public_key(), 1)
        pretend.enrollment, pretend.session_key = held.enrollment, bytes(held.key)
        pretend.counter = int(time.time() * 1e6)
        return json.loads(pretend.sealed_call(f"/v1/runs/{held.run}/ticket", Purpose.TICKET))


@pytest.fixture
def live(service, tmp_path):
    running = Live(service, tmp_path)
    yield running
    running.server.should_exit = True


def test_a_real_machine_enrolls_waits_redeems_and_is_checked(live, tpm, tmp_path):
    service = live.service
    interface = Interface("eth0", (mac_address("52:54:00:00:00:01"),))
    declaration = machines.a_declaration(1, device_serial="SN1", interfaces=(interface,))
    run = service.run(declaration)
    hookos = a_machine(tmp_path / "hookos", tpm.tcti)
    sleep = hookos.clock.sleep
    hookos.clock.sleep = lambda seconds: (sleep(seconds), live.approve())

    assert run_action("enroll", live.environment(run), hookos) == 0, hookos.console.lines
    assert hookos.clock.slept in ([3.0], [4.0])  # by the key, so that a rack does not ask at once
    session = RunFolder(hookos.run_folder).session()
    assert (session.machine, session.run) == (1, str(run))

    with service.sessions.begin() as store:
        from fleetd.store.enrollments import promote_install

        promote_install(store, 1, uuid.UUID(str(run)))
    service.move(run, states.Installing)
    ticket_file = tmp_path / "ticket.json"
    ticket_file.write_text(json.dumps(live.ticket(hookos)))
    service.move(run, states.Configuring)
    tpm.power_cycle()

    installed, state = a_machine(tmp_path / "installed", tpm.tcti), tmp_path / "var"
    assert run_claim_seed(installed, {}, ticket_file, state) == 0, installed.console.lines
    assert len(load_state(state).serials()) == 2

    for _ in range(2):
        assert run_boot_check(installed, {}, state, once=True) == 0, installed.console.lines
    with service.sessions() as store:
        assert store.get(MachineRow, 1).check_state == "ok"
