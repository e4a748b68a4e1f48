"""A strict, bounded walker over DER: what X.509 needs, and the bytes exactly as they were signed.

Source: ITU-T X.690. Manufacturers' certificates break rules that libraries insist on (a serial number with leading zeros,
an explicit default), so values are taken where they stand and nothing is ever encoded again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fleetd.core.attestation.structures import MalformedStructure

BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OCTET_STRING: Final = 0x04
OID: Final = 0x06
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31


@dataclass(frozen=True, slots=True)
class Element:
    """One TLV: its tag octet, its content, and the whole as it stands in the input."""

    tag: int
    content: bytes
    whole: bytes

    def children(self) -> list["Element"]:
        """Return the elements of the content. Raises MalformedStructure when they do not fill it exactly."""
        return list(elements(self.content))

    def expect(self, tag: int, what: str) -> "Element":
        """Return itself. Raises MalformedStructure when it has another tag."""
        if self.tag != tag:
            raise MalformedStructure(f"{what} has tag {self.tag:#04x}, not {tag:#04x}")
        return self


def first_element(data: bytes) -> tuple[Element, bytes]:
    """Return the first element and what follows it. Raises MalformedStructure."""
    if len(data) < 2:
        raise MalformedStructure("no element where one is due")
    tag, length, at = data[0], data[1], 2
    if tag & 0x1F == 0x1F:
        raise MalformedStructure("a tag of more than one byte")
    if length >= 0x80:
        count = length & 0x7F
        if not 1 <= count <= 3 or len(data) < 2 + count:
            raise MalformedStructure("a length that is indefinite, too long or cut off")
        length, at = int.from_bytes(data[2 : 2 + count]), 2 + count
    if at + length > len(data):
        raise MalformedStructure(f"an element of {length} bytes where {len(data) - at} are left")
    return Element(tag, data[at : at + length], data[: at + length]), data[at + length :]


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that fill the data exactly. Raises MalformedStructure."""
    at = 0
    view = data
    while at < len(data):
        element, _ = first_element(view[at : at + 65536 + 8] if len(data) > 65536 else view[at:])
        at += len(element.whole)
        yield element


def only_element(data: bytes, tag: int, what: str) -> Element:
    """Return the one element that the data consists of. Raises MalformedStructure."""
    element, rest = first_element(data)
    if rest:
        raise MalformedStructure(f"{len(rest)} bytes after {what}")
    return element.expect(tag, what)


def oid(content: bytes) -> str:
    """Return an object identifier in dotted form. Raises MalformedStructure."""
    if not content or content[-1] & 0x80 or len(content) > 64:
        raise MalformedStructure("an object identifier that is empty, cut off or too long")
    arcs: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))
