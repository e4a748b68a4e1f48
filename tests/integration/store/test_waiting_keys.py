"""The keys that wait for a person are counted by who sent them: by the /64 in IPv6."""

from datetime import UTC, datetime

from fleetd.store.endorsement_keys import ProvenKey, record_proven, waiting_count
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.tables import METADATA


def test_waiting_keys_are_counted_by_the_prefix_of_an_ipv6_address(empty_database):
    engine = open_engine(empty_database)
    METADATA.create_all(engine)
    addresses = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2", "unknown", ""]
    with session_factory(engine).begin() as session:
        for number, address in enumerate(addresses):
            key = ProvenKey(f"{number:064x}", b"", b"", "rsa", None, "", "IBM", "", "", "verified", (), address=address)
            record_proven(session, key, datetime.now(UTC))
        session.flush()

        counts = {address: waiting_count(session, address) for address in [*addresses, "2001:db8::ff"]}

    engine.dispose()
    assert counts == {
        "2001:db8::1": 2,
        "2001:db8::2": 2,
        "2001:db8::ff": 2,
        "2001:db8:0:1::1": 1,
        "192.0.2.1": 1,
        "192.0.2.2": 1,
        "unknown": 1,
        "": 1,
    }
