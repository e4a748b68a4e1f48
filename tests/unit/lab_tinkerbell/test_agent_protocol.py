"""The hand-made wire format against protobuf's own, and against bytes that are no message."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from fleet_lab import agent_protocol as wire

TABLES = {
    "ActionRequest": wire.ACTION_REQUEST,
    "ActionResponse": wire.ACTION_RESPONSE,
    "ActionStatusRequest": wire.STATUS_REQUEST,
}


def descriptor_of(name: str, table: wire.Table, file: Any) -> None:
    """Describe a table to protobuf, nested tables first."""
    message = file.message_type.add(name=name)
    for field_name, field in table.items():
        described = message.field.add(name=field_name, number=field.number)
        described.label = 3 if field.many else 1
        if isinstance(field.kind, str):
            described.type = {"text": 9, "number": 3}[field.kind]
        else:
            inner = f"{name}_{field_name}"
            descriptor_of(inner, field.kind, file)
            described.type, described.type_name = 11, f".t.{inner}"


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto2")
    for name, table in TABLES.items():
        descriptor_of(name, table, file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in TABLES}


def messages(table: wire.Table) -> st.SearchStrategy[dict[str, Any]]:
    def one(field: wire.Field) -> st.SearchStrategy[Any]:
        if field.kind == "text":
            return st.text(max_size=20)
        if field.kind == "number":
            return st.integers(-(2**63), 2**63 - 1)
        return messages(field.kind)

    optional = {n: st.lists(one(f), min_size=1, max_size=2) if f.many else one(f) for n, f in table.items()}
    return st.fixed_dictionaries({}, optional=optional)


@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
def test_protobuf_reads_what_is_written_and_is_read_in_turn(real: dict[str, Any], name: str, data: Any) -> None:
    message = data.draw(messages(TABLES[name]))
    written = wire.encode(TABLES[name], message)

    understood = real[name].FromString(written)

    assert wire.decode(TABLES[name], understood.SerializeToString()) == message
    assert wire.decode(TABLES[name], written) == message


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    try:
        wire.decode(wire.STATUS_REQUEST, data)
    except ValueError:
        return


def test_unknown_fields_are_dropped() -> None:
    extra = wire.encode({"x": wire.Field(99, "text"), "y": wire.Field(98, "number")}, {"x": "a", "y": 5})
    known = wire.encode(wire.ACTION_REQUEST, {"agent_id": "a"})
    fixed = b"\x9d\x06\x00\x00\x00\x00\x99\x06" + bytes(8)
    assert wire.decode(wire.ACTION_REQUEST, extra + known + fixed) == {"agent_id": "a"}


def test_gos_zero_time_survives() -> None:
    request = {"execution_start": wire.ZERO_TIME}
    assert wire.decode(wire.STATUS_REQUEST, wire.encode(wire.STATUS_REQUEST, request)) == request
