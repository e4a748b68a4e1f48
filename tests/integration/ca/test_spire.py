"""SPIRE attests a node by the LDevID that fleetd issued: real spire-server and spire-agent, a software TPM."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding

from fleet_lab.places import free_port
from fleetd.core.certificates.profile import Tier
from tests.integration.ca.devid import issued_devid
from tests.swtpm import start_swtpm

DOMAIN = "fleet.example.org"
PATIENCE = 90.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("spire-server") and shutil.which("spire-agent")),
        reason="spire-server and spire-agent are not on PATH (docs/how-to/spire.md says how to build them)",
    ),
]

SERVER = """
server {{
  bind_address = "127.0.0.1"
  bind_port = "{port}"
  socket_path = "{sockets}/server.sock"
  trust_domain = "{domain}"
  data_dir = "{data}/server"
}}
plugins {{
  DataStore "sql" {{ plugin_data {{ database_type = "sqlite3", connection_string = "{data}/server.sqlite3" }} }}
  KeyManager "memory" {{ plugin_data {{}} }}
  NodeAttestor "tpm_devid" {{
    plugin_data {{
      devid_ca_path = "{devid_ca}"
      endorsement_ca_path = "{endorsement_ca}"
    }}
  }}
}}
"""
AGENT = """
agent {{
  server_address = "127.0.0.1"
  server_port = "{port}"
  socket_path = "{sockets}/agent.sock"
  trust_domain = "{domain}"
  trust_bundle_path = "{data}/bundle.pem"
  data_dir = "{data}/agent"
}}
plugins {{
  KeyManager "memory" {{ plugin_data {{}} }}
  WorkloadAttestor "unix" {{ plugin_data {{}} }}
  NodeAttestor "tpm_devid" {{
    plugin_data {{
      tpm_device_path = "{tpm}"
      devid_cert_path = "{devid}/devid.pem"
      devid_priv_path = "{devid}/devid.priv"
      devid_pub_path = "{devid}/devid.pub"
    }}
  }}
}}
"""


class Spire:
    """A SPIRE server and one agent."""

    def __init__(self, folder: Path, sockets: Path) -> None:
        self.folder, self.sockets, self.children = folder, sockets, []

    def configure(self, devid, tier):
        issuer = self.folder / "issuers.pem"
        issuer.write_bytes(devid.tree.certificate(tier).public_bytes(Encoding.PEM))
        values = {
            "port": free_port(), "sockets": self.sockets, "domain": DOMAIN, "data": self.folder, "devid_ca": issuer,
            "endorsement_ca": self.folder / "machine" / "ca" / "issuercert.pem", "devid": devid.files,
            "tpm": devid.tpm.sockets / "tpm",
        }  # fmt: skip
        for name, text in (("server", SERVER), ("agent", AGENT)):
            (self.folder / f"{name}.conf").write_text(text.format(**values))

    def start(self, name):
        log = (self.folder / f"{name}.log").open("wb")
        child = subprocess.Popen(
            [f"spire-{name}", "run", "-config", str(self.folder / f"{name}.conf")], stdout=log, stderr=log
        )
        self.children.append(child)
        return child

    def server(self, *words):
        done = subprocess.run(
            ["spire-server", *words, "-socketPath", str(self.sockets / "server.sock")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout if done.returncode == 0 else ""

    def until(self, reached):
        deadline = time.monotonic() + PATIENCE
        while not (found := reached()):
            assert time.monotonic() < deadline, self.log("server") + self.log("agent")
            time.sleep(0.5)
        return found

    def log(self, name):
        file = self.folder / f"{name}.log"
        return file.read_text()[-3000:] if file.exists() else ""

    def attest(self):
        """Start both; return the agent's process."""
        self.start("server")
        (self.folder / "bundle.pem").write_text(self.until(lambda: self.server("bundle", "show")))
        return self.start("agent")

    def stop(self):
        for child in self.children:
            child.terminate()
            child.wait(20)


@pytest.fixture
def spire(tmp_path):
    sockets = Path(tempfile.mkdtemp(prefix="spire-"))
    running = Spire(tmp_path, sockets)
    yield running
    running.stop()
    shutil.rmtree(sockets, ignore_errors=True)


@pytest.fixture
def devid(sessions, tmp_path):
    with start_swtpm(tmp_path / "machine") as tpm:
        yield issued_devid(tpm, sessions, tmp_path)


def test_spire_attests_a_node_by_the_ldevid_that_fleetd_issued_and_gives_its_workload_an_identity(spire, devid):
    spire.configure(devid, Tier.DEVID)
    agent = spire.attest()

    listed = spire.until(
        lambda: agent.poll() is None and "tpm_devid" in (told := spire.server("agent", "list")) and told
    )
    certificate = x509.load_pem_x509_certificate((devid.files / "devid.pem").read_bytes())
    spiffe_id = f"spiffe://{DOMAIN}/spire/agent/tpm_devid/{certificate.fingerprint(SHA1()).hex()}"
    assert spiffe_id in listed
    shown = spire.server("agent", "show", "-spiffeID", spiffe_id)
    assert "tpm_devid:subject:cn:node-7" in shown
    assert re.search(r"tpm_devid:issuer:cn:Example DevID issuing CA", shown)

    node, workload = f"spiffe://{DOMAIN}/node/node-7", f"spiffe://{DOMAIN}/workload"
    spire.server("entry", "create", "-node", "-spiffeID", node, "-selector", "tpm_devid:subject:cn:node-7")
    spire.server("entry", "create", "-parentID", node, "-spiffeID", workload, "-selector", f"unix:uid:{os.getuid()}")

    def fetched():
        done = subprocess.run(
            ["spire-agent", "api", "fetch", "x509", "-socketPath", str(spire.sockets / "agent.sock")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return workload in done.stdout and done.stdout

    assert spire.until(fetched)


def test_spire_refuses_a_node_whose_certificate_is_not_of_the_devid_authority(spire, devid):
    spire.configure(devid, Tier.AK)
    agent = spire.attest()

    agent.wait(PATIENCE)

    assert agent.returncode != 0
    assert "tpm_devid" not in spire.server("agent", "list")
    assert "unable to verify DevID signature" in spire.log("server") + spire.log("agent")
