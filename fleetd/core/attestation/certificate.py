"""X.509 certificates of TPM manufacturers, read from the bytes that were signed.

Sources: RFC 5280, 4; TCG EK Credential Profile 2.x, 3. Quirks of real hardware are accepted where they change no meaning:
padding of the NV index, a 5- or 7-byte prefix before the certificate, Intel's base64url JSON, RSAES-OAEP keys, serial
numbers that libraries refuse.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from fleetd.core.attestation import der
from fleetd.core.attestation.structures import MalformedStructure

MAX_CERTIFICATE: Final = 8192
"""Bytes of the largest certificate that is read; real ones are under 2,500, NV indices under 8,192."""

EKU_EK: Final = "2.23.133.8.1"
_RSAES_OAEP: Final = "1.2.840.113549.1.1.7"
_RSA: Final = bytes.fromhex("300d06092a864886f70d0101010500")
_TPM_ATTRIBUTES: Final = {"2.23.133.2.1": "manufacturer", "2.23.133.2.2": "model", "2.23.133.2.3": "version"}
_STRINGS: Final = {
    0x0C: "utf-8",
    0x13: "latin-1",
    0x14: "latin-1",
    0x16: "latin-1",
    0x1E: "utf-16-be",
    0x1C: "utf-32-be",
}
_SHORT: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.5": "serialNumber",
}  # fmt: skip

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class DistinguishedName:
    """A Name: as it stands, as people read it, and folded for comparison."""

    raw: bytes
    text: str
    folded: tuple[tuple[tuple[str, str], ...], ...]
    """RDN by RDN; values with case and runs of spaces folded (RFC 5280, 7.1): manufacturers disagree with themselves."""

    def __str__(self) -> str:
        return self.text or "(no subject)"


@dataclass(frozen=True, eq=False)
class Certificate:
    """One certificate. Times are UTC. `tbs` and `spki` are the bytes as they stand in it."""

    raw: bytes
    tbs: bytes
    serial: bytes
    issuer: DistinguishedName
    subject: DistinguishedName
    not_before: datetime
    not_after: datetime
    spki: bytes
    signature_algorithm: str
    signature_parameters: bytes
    signature: bytes
    is_ca: bool
    path_length: int | None
    key_usage: int | None
    """Bits as in RFC 5280, 4.2.1.3: bit 5 is keyCertSign; None when the extension is absent."""
    extended_key_usage: tuple[str, ...]
    subject_key_id: bytes | None
    authority_key_id: bytes | None
    tpm: dict[str, str] = field(default_factory=dict)
    """manufacturer, model and version from the subject alternative name."""
    unknown_critical: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, lower-case hex."""
        return sha256(self.raw).hexdigest()

    @cached_property
    def spki_fingerprint(self) -> str:
        """SHA-256 of the SubjectPublicKeyInfo, lower-case hex."""
        return sha256(self.spki).hexdigest()

    @property
    def signs_certificates(self) -> bool:
        """Whether it may sign certificates: a CA whose key usage, where present, says keyCertSign."""
        return self.is_ca and (self.key_usage is None or bool(self.key_usage & 1 << 5))

    @cached_property
    def public_key(self) -> PublicKey:
        """The certified key. Raises MalformedStructure when it is no RSA or EC key."""
        try:
            key = load_der_public_key(_plain_spki(self.spki))
        except (ValueError, TypeError, NotImplementedError) as error:
            raise MalformedStructure(f"the certified key cannot be read: {error}") from error
        except Exception as error:  # cryptography raises its own UnsupportedAlgorithm
            raise MalformedStructure(f"the certified key is of an unsupported kind: {error}") from error
        if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            raise MalformedStructure("the certified key is neither RSA nor EC")
        return key


def extract_certificate(data: bytes) -> bytes:
    """Return the DER of a certificate out of what an NV index, a file or a web service holds.

    Takes DER, PEM, Intel's base64url JSON, a prefix of 5 or 7 bytes with length, and any padding behind. Raises
    MalformedStructure when there is no certificate in it.
    """
    if len(data) > 4 * MAX_CERTIFICATE:
        raise MalformedStructure(f"{len(data)} bytes are no certificate")
    text = data.lstrip()
    if text.startswith(b"{"):
        data = _from_json(text)
    elif b"-----BEGIN CERTIFICATE-----" in text:
        data = _from_pem(text)
    if data[:3] == b"\x10\x01\x00" and len(data) > 7:
        data = data[7:] if data[5:7] == b"\x10\x02" else data[5:]
    element, _ = der.first_element(data)
    return element.expect(der.SEQUENCE, "the certificate").whole


def parse_certificate(raw: bytes) -> Certificate:
    """Parse the DER of a certificate; bytes behind it are refused. Raises MalformedStructure."""
    if len(raw) > MAX_CERTIFICATE:
        raise MalformedStructure(f"a certificate of {len(raw)} bytes")
    parts = der.only_element(raw, der.SEQUENCE, "the certificate").children()
    if len(parts) != 3:
        raise MalformedStructure(f"a certificate of {len(parts)} parts")
    tbs, algorithm, signature = parts
    fields = tbs.expect(der.SEQUENCE, "the certificate's body").children()
    if fields and fields[0].tag == 0xA0:
        fields = fields[1:]
    if len(fields) < 6:
        raise MalformedStructure("a body with too few fields")
    serial, inner, issuer, validity, subject, spki = fields[:6]
    if inner.whole != algorithm.whole:
        raise MalformedStructure("the two signature algorithms differ")
    name, parameters = parse_algorithm(algorithm)
    times = validity.expect(der.SEQUENCE, "the validity").children()
    if len(times) != 2:
        raise MalformedStructure("a validity without two times")
    bits = signature.expect(der.BIT_STRING, "the signature").content
    if not bits or bits[0] != 0:
        raise MalformedStructure("a signature that is no whole number of bytes")
    extensions = _extensions(fields[6:])
    return Certificate(
        raw=bytes(raw),
        tbs=tbs.whole,
        serial=serial.expect(der.INTEGER, "the serial number").content,
        issuer=parse_name(issuer),
        subject=parse_name(subject),
        not_before=parse_time(times[0]),
        not_after=parse_time(times[1]),
        spki=spki.expect(der.SEQUENCE, "the public key").whole,
        signature_algorithm=name,
        signature_parameters=parameters,
        signature=bits[1:],
        **_meaning(extensions),
    )


def parse_name(element: der.Element) -> DistinguishedName:
    """Parse a Name; RDNs in any order and shape. Raises MalformedStructure."""
    shown: list[str] = []
    folded: list[tuple[tuple[str, str], ...]] = []
    for rdn in element.expect(der.SEQUENCE, "a name").children():
        pairs = [_attribute(pair) for pair in rdn.expect(der.SET, "an RDN").children()]
        shown += [f"{_SHORT.get(kind, kind)}={value}" for kind, value in pairs]
        folded.append(tuple(sorted((kind, re.sub(r"\s+", " ", value).strip().casefold()) for kind, value in pairs)))
    return DistinguishedName(element.whole, ", ".join(shown), tuple(folded))


def _attribute(pair: der.Element) -> tuple[str, str]:
    parts = pair.expect(der.SEQUENCE, "an attribute").children()
    if len(parts) != 2:
        raise MalformedStructure("an attribute that is no pair")
    kind = der.oid(parts[0].expect(der.OID, "an attribute's type").content)
    return kind, parts[1].content[:256].decode(_STRINGS.get(parts[1].tag, "latin-1"), "replace")


def parse_algorithm(element: der.Element) -> tuple[str, bytes]:
    """Parse an AlgorithmIdentifier into its identifier and its parameters as they stand. Raises MalformedStructure."""
    parts = element.expect(der.SEQUENCE, "the algorithm").children()
    if not parts or len(parts) > 2:
        raise MalformedStructure("an algorithm identifier of odd shape")
    return der.oid(parts[0].expect(der.OID, "the algorithm").content), parts[1].whole if len(parts) == 2 else b""


def _extensions(rest: list[der.Element]) -> dict[str, tuple[bool, bytes]]:
    found: dict[str, tuple[bool, bytes]] = {}
    for element in rest:
        if element.tag != 0xA3:
            continue
        for extension in der.only_element(element.content, der.SEQUENCE, "the extensions").children():
            parts = extension.expect(der.SEQUENCE, "an extension").children()
            if not 2 <= len(parts) <= 3:
                raise MalformedStructure("an extension of odd shape")
            kind = der.oid(parts[0].expect(der.OID, "an extension's type").content)
            critical = len(parts) == 3 and parts[1].expect(der.BOOLEAN, "critical").content != b"\x00"
            if kind in found:
                raise MalformedStructure(f"extension {kind} stands twice")
            found[kind] = (critical, parts[-1].expect(der.OCTET_STRING, "an extension's value").content)
    return found


_UNDERSTOOD: Final = frozenset(
    {"2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.32", "2.5.29.35", "2.5.29.37", "2.5.29.9", "2.5.29.31"}
)
"""Certificate policies count as understood: any policy is accepted, as in RFC 5280, 6.1.1 (c)."""


def _meaning(extensions: dict[str, tuple[bool, bytes]]) -> dict[str, Any]:
    def value(kind: str) -> bytes | None:
        return extensions[kind][1] if kind in extensions else None

    is_ca, path_length = _basic_constraints(value("2.5.29.19"))
    return {
        "is_ca": is_ca,
        "path_length": path_length,
        "key_usage": _key_usage(value("2.5.29.15")),
        "extended_key_usage": _oids(value("2.5.29.37")),
        "subject_key_id": _subject_key_id(value("2.5.29.14")),
        "authority_key_id": _authority_key_id(value("2.5.29.35")),
        "tpm": _tpm_attributes(value("2.5.29.17")),
        "unknown_critical": tuple(
            kind for kind, (critical, _) in extensions.items() if critical and kind not in _UNDERSTOOD
        ),
    }


def _basic_constraints(content: bytes | None) -> tuple[bool, int | None]:
    if content is None:
        return False, None
    parts = der.only_element(content, der.SEQUENCE, "basicConstraints").children()
    is_ca = bool(parts) and parts[0].tag == der.BOOLEAN and parts[0].content not in {b"\x00", b""}
    lengths = [part for part in parts if part.tag == der.INTEGER]
    return is_ca, int.from_bytes(lengths[0].content[:4]) if lengths else None


def _key_usage(content: bytes | None) -> int | None:
    if content is None:
        return None
    bits = der.only_element(content, der.BIT_STRING, "keyUsage").content
    return sum(1 << position for position in range(8) if len(bits) > 1 and bits[1] & 0x80 >> position)


def _oids(content: bytes | None) -> tuple[str, ...]:
    if content is None:
        return ()
    return tuple(
        der.oid(part.expect(der.OID, "a usage").content)
        for part in der.only_element(content, der.SEQUENCE, "extKeyUsage").children()
    )


def _subject_key_id(content: bytes | None) -> bytes | None:
    return None if content is None else der.only_element(content, der.OCTET_STRING, "subjectKeyIdentifier").content


def _authority_key_id(content: bytes | None) -> bytes | None:
    """Return the key id only: issuer and serial of an AKI name older issues of a CA on real chains."""
    if content is None:
        return None
    parts = der.only_element(content, der.SEQUENCE, "authorityKeyIdentifier").children()
    return next((part.content for part in parts if part.tag == 0x80), None)


def _tpm_attributes(content: bytes | None) -> dict[str, str]:
    """Return the TPM attributes of every directory name, whether in one RDN or in several."""
    if content is None:
        return {}
    found: dict[str, str] = {}
    for name in der.only_element(content, der.SEQUENCE, "subjectAltName").children():
        if name.tag != 0xA4:
            continue
        for rdn in der.only_element(name.content, der.SEQUENCE, "a directory name").children():
            for pair in rdn.expect(der.SET, "an RDN").children():
                kind, value = _attribute(pair)
                if kind in _TPM_ATTRIBUTES:
                    found.setdefault(_TPM_ATTRIBUTES[kind], value.strip("\0 "))
    return found


def parse_time(element: der.Element) -> datetime:
    """Parse a UTCTime or GeneralizedTime, whichever stands there. Raises MalformedStructure."""
    try:
        text = element.content.decode("ascii")
        if element.tag == der.UTC_TIME:
            year = int(text[:2])
            return datetime.strptime(
                f"{1900 + year if year >= 50 else 2000 + year}{text[2:]}", "%Y%m%d%H%M%SZ"
            ).replace(tzinfo=UTC)
        element.expect(der.GENERALIZED_TIME, "a time")
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (ValueError, IndexError) as error:
        raise MalformedStructure("a time that is none") from error


def _plain_spki(spki: bytes) -> bytes:
    """Return the SPKI with rsaEncryption where it says RSAES-OAEP: the key is the same (old EK certificates)."""
    parts = der.only_element(spki, der.SEQUENCE, "the public key").children()
    if len(parts) == 2 and parse_algorithm(parts[0])[0] == _RSAES_OAEP:
        body = _RSA + parts[1].whole
        return b"\x30\x82" + len(body).to_bytes(2) + body
    return spki


def _from_pem(text: bytes) -> bytes:
    body = text.split(b"-----BEGIN CERTIFICATE-----", 1)[1].split(b"-----END", 1)[0]
    try:
        return base64.b64decode(b"".join(body.split()), validate=True)
    except binascii.Error as error:
        raise MalformedStructure("a PEM block that is no base64") from error


def _from_json(text: bytes) -> bytes:
    """Return the certificate of Intel's answer `{"pubhash": .., "certificate": base64url}`."""
    try:
        coded = json.loads(text)["certificate"]
        return base64.urlsafe_b64decode(coded.replace("%3D", "=") + "=" * (-len(coded) % 4))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedStructure("JSON without a certificate in it") from error
