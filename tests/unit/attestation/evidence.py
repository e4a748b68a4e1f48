"""Builders of evidence: keys that behave like a TPM's, quotes by them, and event logs made byte by byte."""

import hashlib
import struct
from dataclasses import dataclass, field
from uuid import UUID

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from fleetd.core.attestation.banks import ALGORITHM, HASH, SIZE, Bank, PcrSelection, reset_value
from fleetd.core.attestation.device_keys import LAK_ATTRIBUTES, LDEVID_ATTRIBUTES
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.quote import endorsement_qualified_name
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    EccPoint,
    PublicArea,
    RsaParameters,
    Scheme,
    marshal_public,
    parse_public,
)

GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
SECURITY = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
SHIM = UUID("605dab50-e046-4300-abb6-3dd810dd8b23")
X509 = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
SHA256_LIST = UUID("c1c41626-504c-4092-aca9-41f936934328")
CALLING = b"Calling EFI Application from Boot Option"


def sized(data: bytes) -> bytes:
    """A TPM2B."""
    return struct.pack(">H", len(data)) + data


@dataclass
class PretendTpmKey:
    """A signing key with the public area of a TPM key; it signs whatever a test wants, which no TPM would."""

    private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    public: PublicArea
    hash: Bank = Bank.SHA256
    scheme: Algorithm = Algorithm.ECDSA

    def sign(self, message: bytes) -> bytes:
        algorithm = {Bank.SHA1: hashes.SHA1, Bank.SHA256: hashes.SHA256, Bank.SHA384: hashes.SHA384}[self.hash]()
        head = struct.pack(">HH", self.scheme, ALGORITHM[self.hash])
        if isinstance(self.private, ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(self.private.sign(message, ec.ECDSA(algorithm)))
            size = (self.private.key_size + 7) // 8
            return head + sized(r.to_bytes(size)) + sized(s.to_bytes(size))
        if self.scheme is Algorithm.RSAPSS:
            pss = padding.PSS(padding.MGF1(algorithm), padding.PSS.DIGEST_LENGTH)
            return head + sized(self.private.sign(message, pss, algorithm))
        return head + sized(self.private.sign(message, padding.PKCS1v15(), algorithm))


def ecc_key(
    curve: Curve = Curve.P256, attributes: Attribute = LAK_ATTRIBUTES, hashed: Bank = Bank.SHA256, **fields
) -> PretendTpmKey:
    private = ec.generate_private_key(curve.cryptography())
    point = private.public_key().public_numbers()
    scheme = Scheme(Algorithm.ECDSA, ALGORITHM[hashed])
    raw = marshal_public(
        Algorithm.ECC,
        attributes,
        EccParameters(None, scheme, curve, Scheme(Algorithm.NULL)),
        EccPoint(point.x.to_bytes(curve.size), point.y.to_bytes(curve.size)),
        **fields,
    )
    return PretendTpmKey(private, parse_public(raw), hashed)


def rsa_key(scheme: Algorithm = Algorithm.RSASSA, attributes: Attribute = LAK_ATTRIBUTES) -> PretendTpmKey:
    private = rsa.generate_private_key(65537, 2048)
    raw = marshal_public(
        Algorithm.RSA,
        attributes,
        RsaParameters(None, Scheme(scheme, Algorithm.SHA256), 2048, 0),
        private.public_key().public_numbers().n.to_bytes(256),
    )
    return PretendTpmKey(private, parse_public(raw), scheme=scheme)


def ldevid_key() -> PretendTpmKey:
    return ecc_key(attributes=LDEVID_ATTRIBUTES)


def selection_bytes(selection: PcrSelection, size: int = 3) -> bytes:
    out = struct.pack(">I", len(selection.banks))
    for bank, indexes in selection.banks:
        bits = sum(1 << index for index in indexes)
        out += struct.pack(">HB", ALGORITHM[bank], size) + bits.to_bytes(size, "little")
    return out


def pcr_digest_of(selection: PcrSelection, pcrs, hashed: Bank = Bank.SHA256) -> bytes:
    return HASH[hashed](b"".join(pcrs[bank][i] for bank, indexes in selection.banks for i in indexes)).digest()


@dataclass
class QuoteParts:
    """Everything that a quote is made of, each part free to be wrong."""

    key: PretendTpmKey
    pcrs: dict
    selection: PcrSelection
    extra_data: bytes = bytes(32)
    magic: int = 0xFF544347
    kind: int = 0x8018
    signer: bytes | None = None
    clock: tuple[int, int, int, int] = (1_000_000, 5, 2, 1)
    firmware: int = 0x0001000200030004
    digest: bytes | None = None
    selection_size: int = 3
    tail: bytes = b""

    def attest(self) -> bytes:
        digest = pcr_digest_of(self.selection, self.pcrs, self.key.hash) if self.digest is None else self.digest
        return self.head() + selection_bytes(self.selection, self.selection_size) + sized(digest) + self.tail

    def head(self) -> bytes:
        signer = endorsement_qualified_name(self.key.public.name()) if self.signer is None else self.signer
        clock, resets, restarts, safe = self.clock
        return (
            struct.pack(">IH", self.magic, self.kind)
            + sized(signer)
            + sized(self.extra_data)
            + struct.pack(">QIIBQ", clock, resets, restarts, safe, self.firmware)
        )

    def signed(self) -> tuple[bytes, bytes]:
        raw = self.attest()
        return raw, self.key.sign(raw)


@dataclass
class CertifyParts(QuoteParts):
    """A TPM2_Certify of `certified`."""

    certified: bytes = b""

    def attest(self) -> bytes:
        return self.head() + sized(self.certified) + sized(b"\x00\x0b" + bytes(32)) + self.tail


def certify(key: PretendTpmKey, certified: PublicArea, extra_data: bytes, **fields) -> tuple[bytes, bytes]:
    parts = CertifyParts(
        key, {}, PcrSelection(()), extra_data, kind=fields.pop("kind", 0x8017), certified=certified.name(), **fields
    )
    return parts.signed()


def variable(vendor: UUID, name: str, value: bytes, slack: bytes = b"") -> bytes:
    encoded = name.encode("utf-16-le")
    return vendor.bytes_le + struct.pack("<QQ", len(encoded) // 2, len(value)) + encoded + value + slack


def signature_list(kind: UUID, entries: list[bytes], owner: UUID = SECURITY) -> bytes:
    size = 16 + len(entries[0])
    body = b"".join(owner.bytes_le + entry for entry in entries)
    return kind.bytes_le + struct.pack("<III", 28 + len(body), 0, size) + body


def load_event(path: str) -> bytes:
    """A UEFI_IMAGE_LOAD_EVENT with a file path."""
    text = (path + "\0").encode("utf-16-le")
    device_path = struct.pack("<BBH", 4, 4, 4 + len(text)) + text + b"\x7f\xff\x04\x00"
    return struct.pack("<QQQQ", 0x1000, 0x2000, 0, len(device_path)) + device_path


@dataclass
class LogBuilder:
    """An event log, written event by event as firmware would, with the PCRs a TPM would then hold."""

    banks: tuple[Bank, ...] = (Bank.SHA1, Bank.SHA256)
    header_pcr: int = 0
    locality: int = 0
    vendor_info: bytes = b""
    events: list[bytes] = field(default_factory=list)
    pcrs: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        for bank in self.banks:
            self.pcrs[bank] = {pcr: reset_value(bank, pcr) for pcr in range(24)}
            self.pcrs[bank][0] = bytes(SIZE[bank] - 1) + bytes((self.locality,))

    def add(
        self,
        pcr: int,
        kind: int,
        data: bytes,
        hashed: bytes | None = None,
        digests: dict[Bank, bytes] | None = None,
        *,
        extend: bool = True,
        log: bool = True,
    ) -> "LogBuilder":
        """Measure `hashed` (by default the data) and log it with `data`."""
        if digests is None:
            payload = data if hashed is None else hashed
            digests = {bank: HASH[bank](payload).digest() for bank in self.banks}
        if kind == kinds.NO_ACTION:
            digests, extend = {bank: bytes(SIZE[bank]) for bank in self.banks}, False
        if log:
            self.events.append(agile_event(pcr, kind, digests, data))
        if extend:
            for bank, digest in digests.items():
                self.pcrs[bank][pcr] = HASH[bank](self.pcrs[bank][pcr] + digest).digest()
        return self

    def startup_locality(self, locality: int) -> "LogBuilder":
        return self.add(0, kinds.NO_ACTION, b"StartupLocality\x00" + bytes((locality,)))

    def separators(self, payload: bytes = bytes(4)) -> "LogBuilder":
        for pcr in range(8):
            self.add(pcr, kinds.SEPARATOR, payload)
        return self

    def secure_boot(self, value: bytes = b"\x01", dbx: int = 3) -> "LogBuilder":
        entries = [hashlib.sha256(bytes((i,))).digest() for i in range(dbx)]
        self.add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", value))
        self.add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "PK", signature_list(X509, [b"\x30" * 64])))
        self.add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "KEK", signature_list(X509, [b"\x31" * 64])))
        self.add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "db", signature_list(X509, [b"\x32" * 64])))
        value = signature_list(SHA256_LIST, entries) if entries else b""
        return self.add(7, kinds.EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "dbx", value))

    def authority(self, certificate: bytes, name: str = "db") -> "LogBuilder":
        value = SECURITY.bytes_le + certificate
        return self.add(7, kinds.EFI_VARIABLE_AUTHORITY, variable(SECURITY, name, value))

    def image(self, content: bytes, path: str = "\\EFI\\BOOT\\BOOTX64.EFI") -> "LogBuilder":
        return self.add(4, kinds.EFI_BOOT_SERVICES_APPLICATION, load_event(path), hashed=content)

    def calling(self) -> "LogBuilder":
        return self.add(4, kinds.EFI_ACTION, CALLING)

    def bytes(self) -> bytes:
        return agile_header(self.banks, self.header_pcr, self.vendor_info) + b"".join(self.events)


def agile_header(banks, pcr: int = 0, vendor_info: bytes = b"") -> bytes:
    data = b"Spec ID Event03\x00" + struct.pack("<IBBBBI", 0, 0, 2, 0, 2, len(banks))
    data += b"".join(struct.pack("<HH", ALGORITHM[bank], SIZE[bank]) for bank in banks)
    data += bytes((len(vendor_info),)) + vendor_info
    return struct.pack("<II20sI", pcr, kinds.NO_ACTION, bytes(20), len(data)) + data


def agile_event(pcr: int, kind: int, digests: dict[Bank, bytes], data: bytes) -> bytes:
    out = struct.pack("<III", pcr, kind, len(digests))
    out += b"".join(struct.pack("<H", ALGORITHM[bank]) + digest for bank, digest in digests.items())
    return out + struct.pack("<I", len(data)) + data


def legacy_event(pcr: int, kind: int, data: bytes, digest: bytes | None = None) -> bytes:
    return struct.pack("<II20sI", pcr, kind, digest or hashlib.sha1(data).digest(), len(data)) + data


def certificate_like(seed: bytes, length: int = 600) -> bytes:
    """DER that begins and ends as a certificate does."""
    body = hashlib.shake_256(seed).digest(length)
    return b"\x30\x82" + length.to_bytes(2) + body


def a_boot(
    uki: bytes = b"uki",
    *,
    secure_boot: bytes = b"\x01",
    firmware: str = "1.0",
    dbx: int = 3,
    certificate: bytes | None = None,
    banks: tuple[Bank, ...] = (Bank.SHA1, Bank.SHA256),
) -> LogBuilder:
    """An ordinary boot of one UKI."""
    log = LogBuilder(banks)
    log.add(0, kinds.S_CRTM_VERSION, (firmware + "\0").encode("utf-16-le"))
    log.add(
        0, kinds.EFI_PLATFORM_FIRMWARE_BLOB, struct.pack("<QQ", 0xFF000000, 0x10000), hashed=b"code" + firmware.encode()
    )
    log.secure_boot(secure_boot, dbx)
    log.add(1, kinds.EFI_VARIABLE_BOOT, variable(GLOBAL, "BootOrder", b"\x01\x00"), hashed=b"\x01\x00")
    log.calling().separators()
    if certificate is not None:
        log.authority(certificate)
    log.image(uki)
    for name, content in ((".linux", b"kernel"), (".initrd", b"initrd"), (".cmdline", b"quiet")):
        shown = name.encode("utf-16-le") + b"\0\0"
        log.add(11, kinds.IPL, shown, hashed=name.encode() + b"\0")
        log.add(11, kinds.IPL, shown, hashed=content)
    log.add(5, kinds.EFI_ACTION, b"Exit Boot Services Invocation")
    log.add(5, kinds.EFI_ACTION, b"Exit Boot Services Returned with Success")
    return log
