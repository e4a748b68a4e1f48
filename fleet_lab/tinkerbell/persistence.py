"""Keep a store in a file, so that the stand-in can be stopped or killed at any moment and started again.

One line a change, written before the change is answered; the file is made compact at each start.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from fleet_lab.tinkerbell.store import Change, Event, Key, Store


def load(store: Store, path: Path) -> None:
    """Fill a store from a file; one that does not exist is an empty store, a cut last line is ignored."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            read = json.loads(line)
        except ValueError:
            return
        key = _key(read["key"])
        store.version = read["version"]
        if read["item"] is None:
            store.items.pop(key, None)
        else:
            store.items[key] = read["item"]


@contextlib.contextmanager
def kept(store: Store, path: Path | None) -> Iterator[None]:
    """Load a store, then write each change as it happens."""
    if path is None:
        yield
        return
    load(store, path)
    beside = path.with_suffix(".new")
    beside.touch(mode=0o600)
    with beside.open("w") as file:
        for key, item in store.items.items():
            _write(file, store.version, key, item)
    beside.replace(path)
    with path.open("a") as file:

        def changed(event: Event) -> None:
            metadata = event.item["metadata"]
            key = (f"{event.kind.plural}.{event.kind.group}", metadata["namespace"], metadata["name"])
            _write(file, event.version, key, None if event.change is Change.DELETED else event.item)
            file.flush()

        stop = store.listen(changed)
        try:
            yield
        finally:
            stop()


def _write(file: IO[str], version: int, key: Key, item: Any) -> None:
    file.write(json.dumps({"version": version, "key": key, "item": item}, separators=(",", ":")) + "\n")


def _key(read: list[str]) -> Key:
    plural, namespace, name = read
    return plural, namespace, name
