"""Make NetBox's schema before it is asked for: its migrations run for minutes, beside what needs no NetBox.

`python -m fleet_lab.services.schema_ahead` ends at once when the cache has it. Whoever needs it meanwhile waits for it.
It stops, and leaves nothing, when it is terminated.
"""

import os
import signal
import sys
from contextlib import ExitStack

from fleet_lab.bringup import clean
from fleet_lab.places import Places
from fleet_lab.services.netbox import netbox_schema
from fleet_lab.services.netbox_schema import is_cached
from fleet_lab.services.postgres import start_postgres
from fleet_lab.services.valkey import start_valkey


def main() -> None:
    """Put the schema of NetBox with the plugin into the cache. Raises LabError."""
    if is_cached():
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    places = Places(f"schema-{os.getpid()}")
    with ExitStack() as stack:
        stack.callback(clean, places)
        postgres = start_postgres(places)
        stack.callback(postgres.stop)
        valkey = start_valkey(places)
        stack.callback(valkey.stop)
        netbox_schema(places, postgres, valkey).template(plugin=True)


if __name__ == "__main__":
    main()
