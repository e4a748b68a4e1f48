"""The messages of `proto.WorkflowService` (Tinkerbell v0.25), and just enough of protobuf's wire format for them.

Hand-made, since generated code is tied to one protobuf release, and an agent runs on whatever its distribution ships.
Every message is a dictionary with the field names of the tables below; absent fields are absent keys.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

SERVICE = "proto.WorkflowService"
GET_ACTION = "GetAction"
REPORT = "ReportActionStatus"
ZERO_TIME = {"seconds": -62135596800}
"""Go's zero time, year 1: an agent reports a running action with it."""

Message = dict[str, Any]


class State(IntEnum):
    """StateType."""

    UNSPECIFIED = 0
    PENDING = 1
    RUNNING = 2
    FAILED = 3
    TIMEOUT = 4
    SUCCESS = 5


@dataclass(frozen=True)
class Field:
    """One field: its number, and `text`, `number` or the table of a nested message."""

    number: int
    kind: Any
    many: bool = False


Table = Mapping[str, Field]


def _table(**fields: Any) -> Table:
    return {name: spec if isinstance(spec, Field) else Field(*spec) for name, spec in fields.items()}


_TEXT, _NUMBER = "text", "number"


def _texts(*names: str) -> Table:
    return {name: Field(number, _TEXT) for number, name in enumerate(names, 1)}


TIMESTAMP = _table(seconds=(1, _NUMBER), nanos=(2, _NUMBER))
ACTION_MESSAGE = _texts("message")
NAMESPACES = _texts("network", "pid")
_PROCESSOR = _table(
    id=(1, _NUMBER),
    cores=(2, _NUMBER),
    threads=(3, _NUMBER),
    vendor=(4, _TEXT),
    model=(5, _TEXT),
    capabilities=Field(6, _TEXT, many=True),
)
_CPU = _table(total_cores=(1, _NUMBER), total_threads=(2, _NUMBER), processors=Field(3, _PROCESSOR, many=True))
_BLOCK = _texts(
    "name",
    "controller_type",
    "drive_type",
    "size",
    "physical_block_size",
    "vendor",
    "model",
    "wwn",
    "serial_number",
)
_NETWORK = {**_texts("name", "mac", "speed"), "enabled_capabilities": Field(4, _TEXT, many=True)}
_PCI = _texts("vendor", "product", "class", "driver")
AGENT_ATTRIBUTES = _table(
    cpu=(1, _CPU),
    memory=(2, _texts("total", "usable")),
    block=Field(3, _BLOCK, many=True),
    network=Field(4, _NETWORK, many=True),
    pci=Field(5, _PCI, many=True),
    gpu=Field(6, _PCI, many=True),
    chassis=(7, _texts("serial", "vendor")),
    bios=(8, _texts("vendor", "version", "release_date")),
    baseboard=(9, _texts("vendor", "product", "version", "serial_number")),
    product=(10, _texts("name", "vendor", "serial_number")),
)
ACTION_REQUEST = _table(agent_id=(1, _TEXT), agent_attributes=(2, AGENT_ATTRIBUTES))
ACTION_RESPONSE = _table(
    workflow_id=(1, _TEXT),
    task_id=(2, _TEXT),
    agent_id=(3, _TEXT),
    action_id=(4, _TEXT),
    name=(5, _TEXT),
    image=(6, _TEXT),
    timeout=(7, _NUMBER),
    command=Field(8, _TEXT, many=True),
    volumes=Field(9, _TEXT, many=True),
    environment=Field(10, _TEXT, many=True),
    pid=(11, _TEXT),
    namespaces=(12, NAMESPACES),
)
STATUS_REQUEST = _table(
    workflow_id=(1, _TEXT),
    agent_id=(2, _TEXT),
    task_id=(3, _TEXT),
    action_id=(4, _TEXT),
    action_name=(5, _TEXT),
    action_state=(6, _NUMBER),
    execution_start=(7, TIMESTAMP),
    execution_stop=(8, TIMESTAMP),
    execution_duration=(9, _TEXT),
    message=(10, ACTION_MESSAGE),
)
STATUS_RESPONSE: Table = {}


def encode(table: Table, message: Mapping[str, Any]) -> bytes:
    """Return the wire form of a message; raises KeyError for a field that the table lacks."""
    out = bytearray()
    for name, value in message.items():
        field = table[name]
        for item in value if field.many else [value]:
            out += _encode_field(field, item)
    return bytes(out)


def decode(table: Table, data: bytes) -> Message:
    """Return the message; unknown fields are dropped. Raises ValueError when the bytes are no message."""
    message: Message = {}
    by_number = {field.number: (name, field) for name, field in table.items()}
    for number, value in _raw_fields(data):
        if number not in by_number:
            continue
        name, field = by_number[number]
        item = _decode_field(field, value)
        if field.many:
            message.setdefault(name, []).append(item)
        else:
            message[name] = item
    return message


def _encode_field(field: Field, value: Any) -> bytes:
    if field.kind == _NUMBER:
        return _varint(field.number << 3) + _varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF)
    content = value.encode() if field.kind == _TEXT else encode(field.kind, value)
    return _varint(field.number << 3 | 2) + _varint(len(content)) + content


def _decode_field(field: Field, value: Any) -> Any:
    if field.kind == _NUMBER:
        if not isinstance(value, int):
            raise ValueError("a number was expected")
        return value - (1 << 64) if value >= 1 << 63 else value
    if isinstance(value, int):
        raise ValueError("bytes were expected")  # noqa: TRY004 - the bytes are wrong, not the caller
    return value.decode() if field.kind == _TEXT else decode(field.kind, value)


def _raw_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _read_varint(data, position)
            yield number, value
            continue
        if wire == 2:
            length, position = _read_varint(data, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if position + length > len(data):
            raise ValueError("the message is cut off")
        if wire == 2:
            yield number, data[position : position + length]
        position += length


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("the message is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise ValueError("a number is too long")
