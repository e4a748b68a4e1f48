"""The Workloads port over SPIRE's own command line: `spire-server agent ban` on the server's socket.

SPIRE's node attestor tpm_devid trusts the DevID issuer and reads no CRL: only a ban keeps a withdrawn machine out.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from fleetd.ports import OutageError

_TIMEOUT = 20.0
_UNKNOWN = ("code = notfound", "agent not found", "no such agent")
"""SPIRE's own words: a wrapper around its program says `not found` of a pod or a program too."""


@dataclass(frozen=True, slots=True)
class SpireServer:
    """A SPIRE server on this host, or one whose socket is brought here."""

    trust_domain: str
    program: str = "spire-server"
    socket: Path = Path("/tmp/spire-server/private/api.sock")  # noqa: S108 -- SPIRE's own default
    agent_path: str = "/spire/agent/tpm_devid/{fingerprint}"

    def agent_id(self, certificate: bytes) -> str:
        """Return the SPIFFE id of the agent that attested with this LDevID certificate (DER); pure.

        tpm_devid names an agent by the SHA-1 of its certificate unless the server's `agent_path_template` says otherwise.
        """
        fingerprint = sha1(certificate, usedforsecurity=False).hexdigest()
        return f"spiffe://{self.trust_domain}{self.agent_path.format(fingerprint=fingerprint)}"

    def ban(self, certificates: Sequence[bytes]) -> tuple[str, ...]:
        """Ban the agents of these certificates; one that never joined is fine. Raises OutageError."""
        return tuple(name for name in map(self.agent_id, certificates) if self._ban(name))

    def _ban(self, name: str) -> bool:
        command = [self.program, "agent", "ban", "-socketPath", str(self.socket), "-spiffeID", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OutageError(f"SPIRE cannot be asked to ban {name}: {error}") from error
        if done.returncode == 0:
            return True
        said = f"{done.stderr} {done.stdout}".strip()
        if any(word in said.lower() for word in _UNKNOWN):
            return False
        raise OutageError(f"SPIRE did not ban {name}: {said[:300] or f'exit status {done.returncode}'}")
