"""The stand-in for a Talos node looks where Talos looks, in its order, and takes only what Talos would take."""

import base64
import dataclasses
import gzip
import http.server
import threading
from http.client import HTTPConnection

import pytest
import yaml
import zstandard

from fleet_lab.images.cache import image_cache
from fleet_lab.images.light import build_light_talos
from fleet_lab.machine.talos_node import ConfigRefusedError, TalosHost, TalosNode, schema_errors
from fleet_machine.disk import talos_meta
from fleet_machine.disk.partitions import partitions_of
from fleet_machine.disk.source import Disk

CONFIG = [
    {"version": "v1alpha1", "machine": {"type": "worker"}},
    {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "node-1"},
]
QUERY = "code=${code}&uuid=${UUID}&serial=${serial}&mac=${mac}&fixed=a b"


@pytest.fixture(scope="module")
def image():
    with build_light_talos(image_cache()).path.open("rb") as packed:
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed.read())


@pytest.fixture
def host(tmp_path, image):
    path = tmp_path / "disk.img"
    path.write_bytes(image)
    disk = Disk("vda", "LAB0001", "", "", len(image), 512, path)
    return TalosHost("5f1ee701-0000-4000-8000-000000000001", "SN-1", "52:54:00:fe:00:01", disk, {})


def write_meta(host, block, content):
    (meta,) = [partition for partition in partitions_of(host.disk) if partition.label == "META"]
    with host.disk.path.open("r+b") as disk:
        disk.seek(meta.start + block * talos_meta.BLOCK)
        disk.write(content)


def node(host, answers=(), **arguments):
    """A node whose downloads are answered in turn; it says what it says, and sleeps no time at all."""
    said, asked, pauses = [], [], []

    def wait(seconds):
        pauses.append(seconds)
        return len(pauses) < 40

    made = TalosNode(dataclasses.replace(host, command_line=arguments), wait, said.append)
    server = serve(list(answers), asked)
    made.connect = lambda _host, _port, _trust, timeout: HTTPConnection("127.0.0.1", server, timeout=timeout)
    return made, said, asked, pauses


def serve(answers, asked):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            status, body = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            if "gzip" in self.headers["Accept-Encoding"] and status == 200:
                body = gzip.compress(body)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def config(*more):
    return yaml.safe_dump_all([*CONFIG, *more]).encode()


def packed(content):
    return base64.b64encode(zstandard.ZstdCompressor().compress(content)).decode()


FETCH = {"talos.config": f"https://fleetd/v1/config?{QUERY}"}


def test_variables_are_filled_in_from_firmware_and_meta_in_query_values_only(host):
    write_meta(host, 0, talos_meta.encode({11: b"the-code"}))
    made, *_ = node(host)

    assert made.url("https://${code}/a?code=${code}&uuid=&serial=${serial}&x=${other}") == (
        "https://${code}/a?code=the-code&uuid=5f1ee701-0000-4000-8000-000000000001&serial=SN-1&x=%24%7Bother%7D"
    )


def test_the_second_block_of_meta_counts_when_the_first_is_damaged(host):
    write_meta(host, 0, b"\0" * 64)
    write_meta(host, 1, talos_meta.encode({11: b"second", 15: b"a-uuid"}))

    assert node(host)[0].url("https://h/?c=${code}&u=${uuid}") == "https://h/?c=second&u=a-uuid"


def test_a_fetched_configuration_is_kept_in_state_and_comes_first_at_the_next_boot(host):
    made, *_ = node(host, [(200, config())], **FETCH)
    assert made.boot().origin == "talos.config"

    again, _, asked, _ = node(host, [(500, b"")], **FETCH)
    acquired = again.boot()

    assert (acquired.origin, acquired.hostname, asked) == ("STATE", "node-1", [])


def test_an_answer_other_than_200_is_asked_for_again_ever_more_slowly(host):
    made, said, asked, pauses = node(host, [(404, b"?"), (503, b"?"), (404, b"?"), (200, config())], **FETCH)

    assert made.boot().hostname == "node-1"
    assert (len(asked), pauses) == (4, [1.0, 2.0, 4.0])
    assert "404" in said[0]


def test_a_server_that_is_not_there_is_asked_again_too(host):
    made, said, _, pauses = node(host, [(200, config())], **FETCH)
    real, refused = made.connect, iter([True, True, False])
    made.connect = lambda *where: real(*where) if not next(refused) else HTTPConnection("127.0.0.1", 1)

    assert made.boot() is not None
    assert pauses == [1.0, 2.0]
    assert "could not fetch" in said[0]


def test_a_power_cut_ends_the_waiting(host):
    made, _, asked, _ = node(host, [(404, b"")], **FETCH)
    made.wait = lambda _: False

    assert made.boot() is None
    assert len(asked) == 1


def test_it_gives_up_after_three_hours(host):
    made, said, _, pauses = node(host, [(404, b"")], **FETCH)
    made.wait = lambda seconds: pauses.append(seconds) is None

    assert made.boot() is None
    assert 3 * 3600 <= sum(pauses) < 3 * 3600 + 120
    assert said[-1] == "gave up after three hours"


@pytest.mark.parametrize("arguments", [{}, {"talos.config": "none"}])
def test_without_a_source_it_stays_in_maintenance_mode(host, arguments):
    made, said, *_ = node(host, **arguments)

    assert made.boot() is None
    assert "maintenance" in said[0]


def test_204_is_an_empty_configuration(host):
    made, said, *_ = node(host, [(204, b"")], **FETCH)

    assert made.boot() is None
    assert "maintenance" in said[0]


def test_an_inline_configuration_comes_after_the_platforms(host):
    inline = {"talos.config.inline": packed(config())}

    assert node(host, **inline)[0].boot().origin == "talos.config.inline"
    assert node(host, [(200, config())], **inline, **FETCH)[0].boot().origin == "talos.config"


def alias(mac):
    selector = {"match": f'mac(link.permanent_addr) == "{mac}"'}
    return {"apiVersion": "v1alpha1", "kind": "LinkAliasConfig", "name": "fleet0", "selector": selector}


def install(pattern):
    selector = {"diskSelector": {"match": f'disk.serial.matches("{pattern}")'}}
    return {"apiVersion": "v1alpha1", "kind": "UnattendedInstallConfig", "provisioning": selector}


@pytest.mark.parametrize(
    "wrong",
    [
        alias("52:54:00:fe:00:99"),
        install("(?i)^other$"),
        {"version": "v1alpha1"},
    ],
)
def test_what_is_meant_for_another_machine_is_refused(host, wrong):
    made, *_ = node(host, [(200, config(wrong))], **FETCH)

    with pytest.raises(ConfigRefusedError):
        made.boot()


def test_what_is_meant_for_this_machine_is_taken(host):
    content = config(alias(host.mac), install("(?i)^lab0001$"))

    assert len(node(host, [(200, content)], **FETCH)[0].boot().documents) == 4


def test_talos_schema_has_the_last_word_where_it_is_there():
    definitions = {
        "v1alpha1.Config": {"properties": {"version": {"type": "string"}}, "additionalProperties": False},
        "x.HostnameConfig": {"properties": {"kind": {"enum": ["HostnameConfig"]}, "hostname": {"type": "string"}}},
    }

    assert schema_errors(definitions, {"version": "v1alpha1"}) == []
    assert "machine" in schema_errors(definitions, {"machine": {}})[0]
    assert "hostname" in schema_errors(definitions, {"kind": "HostnameConfig", "hostname": 1})[0]
    assert schema_errors(definitions, {"kind": "Other"}) == ["there is no kind Other"]
