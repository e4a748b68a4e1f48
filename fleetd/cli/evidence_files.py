"""Evidence read from files: attestations, signatures, public keys and PCR values in the forms that tools write."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import typer
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from fleetd.core.attestation.attest import parse_signature
from fleetd.core.attestation.banks import BANK_OF, PCR_COUNT, SIZE, Bank
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    EccPoint,
    MalformedStructure,
    PublicArea,
    RsaParameters,
    Scheme,
    marshal_public,
    parse_public,
)

MAX_FILE = 4 * 1024 * 1024
UNREADABLE = 2


def read_evidence(path: Path) -> bytes:
    """Return the file's bytes; ends the command with status 2 when there are none or too many."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise unreadable(path, f"it is larger than {MAX_FILE} bytes")
        # Files of securityfs and sysfs say that they have size 0: read to the end.
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    if not data:
        raise unreadable(path, "it is empty")
    return data


def unreadable(path: Path, problem: str) -> typer.Exit:
    """Tell on standard error why a file cannot be used; return the exit to raise."""
    typer.echo(f"{path}: {problem}", err=True)
    return typer.Exit(UNREADABLE)


def read_public(path: Path) -> tuple[PublicArea, bool]:
    """Read a signing key; the second value tells whether its Name is known.

    Accepted: TPMT_PUBLIC, TPM2B_PUBLIC, and a public key or certificate in PEM or DER. The latter two carry no Name.
    """
    data = read_evidence(path)
    for candidate in (data, data[2:] if data[:2] == (len(data) - 2).to_bytes(2) else b""):
        try:
            return parse_public(candidate), True
        except MalformedStructure:
            continue
    loaders: tuple[Callable[[bytes], object], ...] = (
        load_pem_public_key,
        load_der_public_key,
        lambda raw: x509.load_pem_x509_certificate(raw).public_key(),
        lambda raw: x509.load_der_x509_certificate(raw).public_key(),
    )
    for load in loaders:
        try:
            return _bare(load(data)), False
        except (ValueError, TypeError):
            continue
    raise unreadable(path, "it is neither a TPM public area nor a public key or certificate in PEM or DER")


def _bare(key: object) -> PublicArea:
    """Give a plain public key the form of a TPM key that is bound to no scheme."""
    null = Scheme(Algorithm.NULL)
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        parameters = RsaParameters(None, null, key.key_size, numbers.e)
        raw = marshal_public(Algorithm.RSA, Attribute(0), parameters, numbers.n.to_bytes(key.key_size // 8))
    elif isinstance(key, ec.EllipticCurvePublicKey):
        curve = {"secp256r1": Curve.P256, "secp384r1": Curve.P384, "secp521r1": Curve.P521}.get(key.curve.name)
        if curve is None:
            raise ValueError("unknown curve")
        point = key.public_numbers()
        unique = EccPoint(point.x.to_bytes(curve.size), point.y.to_bytes(curve.size))
        raw = marshal_public(Algorithm.ECC, Attribute(0), EccParameters(None, null, curve, null), unique)
    else:
        raise TypeError("neither RSA nor ECC")
    return parse_public(raw)


def read_signature(path: Path, key: PublicArea) -> bytes:
    """Read a TPMT_SIGNATURE; a bare RSASSA signature of the key's length counts as one with SHA-256."""
    data = read_evidence(path)
    try:
        parse_signature(data)
    except MalformedStructure:
        parameters = key.parameters
        if isinstance(parameters, RsaParameters) and len(data) * 8 == parameters.key_bits:
            return struct.pack(">HHH", Algorithm.RSASSA, Algorithm.SHA256, len(data)) + data
    return data


def read_attest(path: Path) -> bytes:
    """Read a TPMS_ATTEST; a TPM2B_ATTEST loses its size."""
    data = read_evidence(path)
    return data[2:] if data[:2] == (len(data) - 2).to_bytes(2) else data


def read_pcrs(path: Path) -> dict[Bank, dict[int, bytes]]:
    """Read PCR values: JSON `{"sha256": {"0": "hex"}}`, what `tpm2_pcrread` prints, or `tpm2_quote --pcr` writes."""
    data = read_evidence(path)
    try:
        return _from_json(json.loads(data)) if data.lstrip()[:1] == b"{" else _from_tools(data)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise unreadable(path, f"these are no PCR values: {error}") from error


def _from_json(parsed: dict[str, dict[str, str]]) -> dict[Bank, dict[int, bytes]]:
    return {
        Bank(bank): {int(index): bytes.fromhex(value) for index, value in values.items()}
        for bank, values in parsed.items()
    }


def _from_tools(data: bytes) -> dict[Bank, dict[int, bytes]]:
    if b":" not in data[:200] or b"\x00" in data[:200]:
        return _from_quote_file(data)
    found: dict[Bank, dict[int, bytes]] = {}
    bank: Bank | None = None
    for line in data.decode("ascii").splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name and not value:
            bank = Bank(name)
        elif name and bank is not None:
            found.setdefault(bank, {})[int(name)] = bytes.fromhex(value.removeprefix("0x"))
    return found


_TOOL_SELECTION = struct.Struct("<HB4sx")
_TOOL_DIGEST = struct.Struct("<H64s")


def _from_quote_file(data: bytes) -> dict[Bank, dict[int, bytes]]:
    """Read tpm2-tools' own dump: TPML_PCR_SELECTION, a count, then so many TPML_DIGEST, as C lays them out."""
    (banks,) = struct.unpack_from("<I", data)
    wanted: list[tuple[Bank, int]] = []
    for position in range(min(banks, 16)):
        algorithm, size, bitmap = _TOOL_SELECTION.unpack_from(data, 4 + 8 * position)
        bits = int.from_bytes(bitmap[:size], "little")
        wanted += [(BANK_OF[algorithm], index) for index in range(PCR_COUNT) if bits >> index & 1]
    (lists,) = struct.unpack_from("<I", data, 4 + 8 * 16)
    offset, digests = 4 + 8 * 16 + 4, []
    for _ in range(min(lists, 16)):
        (count,) = struct.unpack_from("<I", data, offset)
        for entry in range(min(count, 8)):
            size, value = _TOOL_DIGEST.unpack_from(data, offset + 4 + 66 * entry)
            digests.append(value[:size])
        offset += 4 + 66 * 8
    if len(digests) != len(wanted):
        raise ValueError(f"{len(digests)} values for {len(wanted)} PCRs")
    found: dict[Bank, dict[int, bytes]] = {}
    for (bank, index), value in zip(wanted, digests, strict=True):
        if len(value) != SIZE[bank]:
            raise ValueError(f"PCR {index} of {bank} has {len(value)} bytes")
        found.setdefault(bank, {})[index] = value
    return found
