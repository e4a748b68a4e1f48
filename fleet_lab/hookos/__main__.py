"""The HookOS stand-in's only program: the agent of this machine, with crun behind it."""

import sys
from pathlib import Path

from fleet_lab.agent import Agent
from fleet_lab.hookos.crun import CrunRunner, adopt_orphans

_TINK_PORT = 42113
_ENVIRONMENT = Path("/run/fleet/agent.env")
_PERMITTED = Path("/etc/fleet/action-images")


def main() -> int:
    """Run the agent that DHCP named, until it ends."""
    adopt_orphans()
    told = dict(line.split("=", 1) for line in _ENVIRONMENT.read_text(encoding="utf-8").splitlines())
    permitted = frozenset(_PERMITTED.read_text(encoding="utf-8").split())
    runner = CrunRunner(Path("/run/hookos"), permitted)
    server = f"{told['AGENT_GRPC_SERVER']}:{_TINK_PORT}"
    uptime = Path("/proc/uptime").read_text(encoding="utf-8").split()[0]
    print(f"hookos: agent {told['AGENT_ID']} asks {server}, {uptime} s after the kernel started", flush=True)
    Agent(server, told["AGENT_ID"], runner).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
