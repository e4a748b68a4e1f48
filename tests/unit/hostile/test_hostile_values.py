"""Whatever stands in NetBox, it comes out of a seed, a Hardware and a Workflow as data."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings

from fleet_lab.tinkerbell import gotemplate
from fleetd.app.effects import hardware_wanted
from fleetd.core.declaration import Address, Disk, Interface
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import Gated
from fleetd.core.names import DiskSerial, IntentKind, mac_address
from fleetd.seeds.rendering import SeedRenderer
from fleetd.seeds.templates import SeedError
from fleetd.tinkerbell.hardware import merged
from tests.unit.seeds.test_seeds import a_class, inputs
from tests.worlds import START, a_declaration, an_intent

from .words import WORD, opened, replaced, words

CHECKOUT = Path(__file__).resolve().parents[3]
TOKENS = [
    f"t0ken{name}t0ken"
    for name in (
        "NODE",
        "DEVICE",
        "SERIAL",
        "STATUS",
        "SITE",
        "ROLE",
        "DISK",
        "WWN",
        "TAG",
        "PORT",
        "ADDRESS",
        "DNS",
        "PRIMARY",
        "GATEWAY",
    )
]
NODE, DEVICE, SERIAL, STATUS, SITE, ROLE, DISK, WWN, TAG, PORT, ADDRESS, DNS, PRIMARY, GATEWAY = TOKENS
MANY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def declared(chosen):
    """Every text of a declaration, in the words chosen."""
    word = {token: chosen.get(token, token) for token in TOKENS}
    return {
        "node_name": word[NODE],
        "device_name": word[DEVICE],
        "device_serial": word[SERIAL],
        "device_status": word[STATUS],
        "site": word[SITE],
        "role": word[ROLE],
        "disk": Disk(DiskSerial(word[DISK]), word[WWN]),
        "tags": (word[TAG],),
        "primary_ip4": word[PRIMARY],
        "interfaces": (Interface(word[PORT], (mac_address("52:54:00:00:00:07"),)),),
        "addresses": (Address(word[ADDRESS], word[PORT], word[DNS], word[GATEWAY]),),
    }


def rendered(machine_class, chosen):
    renderer = SeedRenderer(CHECKOUT / "templates", Path("/nonexistent"))
    return renderer.render(inputs(machine_class=machine_class, **declared(chosen)))


def files_of(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        return {member.name: yaml.safe_load(files.extractfile(member).read()) for member in files}


NOCLOUD = a_class(values={"dns": ["192.0.2.53"]})
ALPINE = a_class("alpine-image", template="cloud-init-basic")
NIXOS = a_class("nixos-image", template="cloud-init-basic")


@MANY
@given(chosen=words(TOKENS))
def test_a_nocloud_seed_holds_every_word_as_data(chosen):
    assume(":" not in chosen[GATEWAY])  # which makes an IPv6 route of it
    plain = opened(files_of(rendered(NOCLOUD, {})))

    assert opened(files_of(rendered(NOCLOUD, chosen))) == replaced(plain, chosen)


@pytest.mark.parametrize("machine_class", [ALPINE, NIXOS])
@MANY
@given(chosen=words(TOKENS))
def test_a_seed_json_holds_every_word_as_data(machine_class, chosen):
    plain = json.loads(rendered(machine_class, {}))

    assert json.loads(rendered(machine_class, chosen)) == replaced(plain, chosen)


def hardware(chosen):
    declaration = replace(a_declaration(), **declared(chosen))
    run = Run(
        an_intent().id, declaration.machine, IntentKind.PROVISION, Gated(START, START), declaration, was_active=False
    )
    empty = {"metadata": {"name": "fleet-7"}}
    return merged(empty, hardware_wanted(run))


@MANY
@given(chosen=words(TOKENS))
def test_a_hardware_holds_the_name_as_data_and_no_address_that_is_none(chosen):
    found = json.loads(json.dumps(hardware(chosen)))

    (interface,) = found["spec"]["interfaces"]
    assert interface["dhcp"]["hostname"] == chosen[NODE]
    assert "ip" not in interface["dhcp"]
    assert found.keys() == hardware({}).keys()
    assert interface.keys() == hardware({})["spec"]["interfaces"][0].keys()
    for label in found["metadata"]["labels"].values():
        assert label.replace("-", "").replace("_", "").replace(".", "").isalnum()


@pytest.mark.parametrize("path", sorted((CHECKOUT / "workflows").glob("*.yaml")), ids=lambda path: path.stem)
@MANY
@given(serial=WORD, wwn=WORD, extra=WORD)
def test_a_workflow_holds_disk_words_as_data(path, serial, wwn, extra):
    source = path.read_text()
    names = set(gotemplate_names(source))
    plain = {name: f"t0ken{name}t0ken" for name in names}
    chosen = {"t0kendisk_serialt0ken": serial, "t0kendisk_wwnt0ken": wwn, "t0kenextra_serialst0ken": extra}
    hostile = plain | {"disk_serial": serial, "disk_wwn": wwn, "extra_serials": extra}

    read = yaml.safe_load(gotemplate.render(source, {name: hostile[name] for name in names}))

    assert read == replaced(yaml.safe_load(gotemplate.render(source, plain)), chosen)


def gotemplate_names(source):
    import re

    return re.findall(r"\.([a-z_0-9]+)", " ".join(re.findall(r"{{(.*?)}}", source)))


@MANY
@given(word=WORD)
def test_a_hostile_value_of_a_class_is_data_or_refused_and_never_syntax(word):
    machine_class = a_class(values={"dns": [word], "packages": [word], "ssh_authorized_keys": [word]})

    try:
        files = files_of(rendered(machine_class, {}))
    except SeedError:
        return
    assert files["user-data"]["packages"] == [word]
    assert files["user-data"]["ssh_authorized_keys"] == [word]
