"""The nodes file on disk: YAML and CSV say the same, and every error is named."""

import csv
import io
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetd.nodes_file import NodesFileError, read_nodes

YAML = """\
version: 1
defaults:
  site: lab
  bmc: {secret: shared}
nodes:
  - name: n1
    serial: 0123
    disk_serial: 1e5
    class: lab-alpine
    extra_disks: [a, b]
    bmc: {address: 192.0.2.200}
    interfaces:
      eth0: {mac: 52:54:00:12:34:56, addresses: [192.0.2.1/24]}
      eth0.7: {mgmt_only: true}
  - name: n2
    site: other
    serial: null
"""
CSV = """\
name,site,serial,disk_serial,class,extra_disks,bmc.address,bmc.secret,interfaces.eth0.mac,interfaces.eth0.addresses,interfaces.eth0.7.mgmt_only
n1,lab,0123,1e5,lab-alpine,a b,192.0.2.200,shared,52:54:00:12:34:56,192.0.2.1/24,yes
n2,other,-,,,,,shared,,,
"""


def read(tmp_path, text, name="nodes.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_nodes(path)


def errors_of(tmp_path, text, name="nodes.yaml"):
    with pytest.raises(NodesFileError) as caught:
        read(tmp_path, text, name)
    return "\n".join(caught.value.errors)


def test_yaml_and_csv_say_the_same(tmp_path):
    assert read(tmp_path, YAML) == read(tmp_path, CSV, "nodes.csv")


def test_serials_and_macs_are_texts_however_numeric_they_look(tmp_path):
    first, second = read(tmp_path, YAML)

    assert (first["serial"], first["disk_serial"]) == ("0123", "1e5")
    assert first["interfaces"]["eth0"]["mac"] == "52:54:00:12:34:56"
    assert second["serial"] is None


def test_an_empty_cell_leaves_its_field_alone_and_a_dash_empties_it(tmp_path):
    (node,) = read(tmp_path, "name,rack,serial\nn1,,-\n", "nodes.csv")

    assert node == {"name": "n1", "serial": None}


def test_a_spreadsheets_byte_order_mark_is_no_part_of_the_header(tmp_path):
    assert read(tmp_path, "\ufeffname\nn1\n", "nodes.csv") == [{"name": "n1"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes:\n- name: n1\n  serail: x\n", "$.nodes[0] ('n1'): no such field: 'serail' (is 'serial' meant?)"),
        ("nodes:\n- name: n1\n  name: n2\n", "stands twice"),
        ("nodes:\n- name: n1\n- name: n1\n", "$.nodes[1].name: n1 stands twice"),
        ("nodes:\n- site: lab\n", "'name' is a required property"),
        ("nodes:\n- name: UPPER\n", "$.nodes[0].name"),
        ("nodes:\n- name: n1\n  interfaces: {eth0: {macs: []}}\n", "$.nodes[0].interfaces.eth0"),
        ("nodes: !!python/object:os.system x\n", "not YAML"),
        ("nodes: [\n", "not YAML"),
        ("nodes:\n- name: !!int 4\n", "line 2, column 9: not YAML as it is read here: the tag"),
        ("nodes: [{name: !!bool x}]\n", "the tag"),
        ('nodes: [{name: !!int ""}]\n', "the tag"),
        ("nodes: [{name: !!timestamp x}]\n", "the tag"),
        ("nodes: !!set {a}\n", "the tag"),
        ("nodes: &a [*a]\n", "inside what it names"),
        ("nodes: [&a {<<: *a, name: n1}]\n", "inside what it names"),
        ('nodes: [{name: n1, serial: "\\0"}]\n', "NUL"),
        ('nodes: [{name: n1, serial: "\\uD800"}]\n', "half a character"),
        ('nodes: [{name: "n1\\n"}]\n', "lower-case letters, digits and hyphens"),
        ("nodes: [{name: n1, serial: " + "x" * 10240 + "}]\n", "has 10240 characters, more than 200"),
        ("[" * 5000, "nested too deep"),
        ("- n1\n", "$"),
        ("", "the file is empty"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_an_error_of_yaml_is_named(tmp_path, text, words):
    assert words in errors_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serial\nx\n", "no column `name`"),
        ("name,serail\nn1,x\n", "line 1: no such field: 'serail'"),
        ("name,name\nn1,n1\n", "stands twice"),
        ("name,serial\nn1\n", "line 2: 1 cells where the header has 2"),
        ("name,interfaces.eth0.mgmt_only\nn1,perhaps\n", "line 2: interfaces.eth0.mgmt_only"),
        ('name,serial\n"n1,x\n', "not CSV"),
        ("name,serial\nn1,x\0\n", "NUL"),
        ("name,serial\nn1," + "x" * 10240 + "\n", "has 10240 characters, more than 200"),
        ("name\nn1\nn1\n", "n1 stands twice"),
    ],
)
def test_an_error_of_csv_is_named(tmp_path, text, words):
    assert words in errors_of(tmp_path, text, "nodes.csv")


@pytest.mark.parametrize("reference", ["[{refs}]", "{{<<: [{refs}]}}"])
def test_a_few_lines_of_aliases_cannot_ask_for_all_memory(tmp_path, reference):
    first = "a0: &a0 [x]\n" if reference.startswith("[") else "a0: &a0 {site: x}\n"
    lines = [
        f"a{number}: &a{number} {reference.format(refs=','.join([f'*a{number - 1}'] * 9))}\n" for number in range(1, 30)
    ]

    assert "its aliases make more than" in errors_of(tmp_path, first + "".join(lines) + "nodes: *a29\n")


def test_aliases_of_an_owner_are_read(tmp_path):
    path = tmp_path / "nodes.yaml"
    path.write_text("defaults: &d {site: lab}\nnodes:\n- {<<: *d, name: n1}\r\n")

    assert read_nodes(path) == [{"site": "lab", "name": "n1"}]


def test_a_formula_of_a_spreadsheet_is_a_text(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("name,serial\nn1,\"=cmd|'/c calc'!A1\"\n")

    assert read_nodes(path) == [{"name": "n1", "serial": "=cmd|'/c calc'!A1"}]


def test_all_errors_are_named_at_once(tmp_path):
    text = "nodes:\n- name: A\n- name: b\n  rack: [1]\n- name: c\n  x: 1\n"

    assert errors_of(tmp_path, text).count("$.nodes") == 3


def test_a_file_that_is_not_there_is_an_error_of_its_own(tmp_path):
    with pytest.raises(NodesFileError, match="No such file"):
        read_nodes(tmp_path / "absent.yaml")


@settings(deadline=None, max_examples=50)
@given(
    raw=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)),
    name=st.sampled_from(["a.csv", "a.yaml"]),
)
def test_any_bytes_are_nodes_or_a_refusal(tmp_path_factory, raw, name):
    path = tmp_path_factory.mktemp("nodes") / name
    path.write_bytes(raw)
    with suppress(NodesFileError):
        assert all(node["name"] for node in read_nodes(path))


@settings(deadline=None, max_examples=50)
@given(word=st.text(min_size=1, max_size=60).map(str.strip).filter(lambda text: text and text != "-"))
def test_a_hostile_word_of_csv_comes_out_as_data(tmp_path_factory, word):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["name", "serial"], ["n1", word]])
    path = tmp_path_factory.mktemp("nodes") / "nodes.csv"
    try:
        path.write_text(out.getvalue(), newline="", encoding="utf-8")
    except UnicodeEncodeError:
        return

    try:
        (node,) = read_nodes(path)
    except NodesFileError:
        return  # a control character that no CSV may hold
    assert node["serial"] == word
