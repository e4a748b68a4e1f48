"""What the processes of a light machine leave for the machine around them."""

import json
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from fleet_lab.machine.light_host import LightHost, surroundings


@pytest.fixture
def host(tmp_path: Path) -> LightHost:
    folders = {field.name: str(tmp_path / field.name) for field in fields(LightHost)}
    return LightHost(**folders)


def test_whoever_sees_that_a_machine_waits_for_its_reboot_reads_why(host: LightHost, switching_often: None) -> None:
    waiting, read, over = Path(host.reboot + ".wait"), [], threading.Event()

    def look() -> None:
        while not over.is_set():
            if waiting.exists():
                read.append(waiting.read_text())

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(500):
        surroundings(host, {}).reboot.begin_waiting({"FLEET_RUN": "one"}, Path(host.runs))
    over.set()
    watcher.join()

    assert read
    assert [text for text in read if json.loads(text or "null") != {"environment": {"FLEET_RUN": "one"}}] == []
