"""The LDevID for SPIRE's `tpm_devid` plugin, TLS programs and others: files that name the key; the TPM holds it."""

import base64
import struct
import textwrap
from pathlib import Path

from cryptography import x509

from fleet_machine.failure import FleetError
from fleet_machine.runfolder import write_private
from fleet_machine.seed.state import Certificates, InstalledState, keep_state

LOADABLE_KEY = "2.23.133.10.1.3"
"""TPMKey's type of a key that its parent loads (TCG: ASN.1 Specification for TPM 2.0 Key Files, 3.1)."""
OWNER = 0x40000001
"""TPM_RH_OWNER as parent: the storage root key of the TCG's ECC template in the owner hierarchy."""


def export_devid(state: InstalledState, folder: Path) -> tuple[Path, ...]:
    """Write the LDevID's files and return their paths.

    `devid.pub` (TPMT_PUBLIC) and `devid.priv` (TPM2B_PRIVATE without size prefix, wrapped by the TPM) are what SPIRE's `tpm_devid`
    loads; `devid.pem` is the certificate and its own chain; `devid.tss.pem` is the same key as tpm2-openssl and tpm2-tss-engine
    load it. Raises FleetError when the machine has no LDevID certificate.
    """
    if state.certificates is None:
        raise FleetError("fleetd has issued no device certificate to this machine.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    contents = {
        "devid.pub": state.devid_public,
        "devid.priv": state.devid_private,
        "devid.pem": (state.certificates.ldevid + "".join(own_chain(state.certificates))).encode(),
        "devid.tss.pem": tss_private_key(state.devid_public, state.devid_private),
    }
    for name, content in contents.items():
        write_private(folder / name, content)
    return tuple(folder / name for name in contents)


def keep_installed(folder: Path, state: InstalledState) -> None:
    """Keep the state, and the LDevID's files where the class wants them."""
    keep_state(folder, state)
    if state.devid_folder and state.certificates is not None:
        export_devid(state, Path(state.devid_folder))


def own_chain(certificates: Certificates) -> tuple[str, ...]:
    """Return the chain above the LDevID alone, its issuer first: a TLS server is shown no authority that it does not need."""
    links = {x509.load_pem_x509_certificate(pem.encode()).subject: pem for pem in certificates.chain}
    found: list[str] = []
    below = x509.load_pem_x509_certificate(certificates.ldevid.encode())
    while below.issuer != below.subject and below.issuer in links and len(found) < len(links):
        found.append(links[below.issuer])
        below = x509.load_pem_x509_certificate(found[-1].encode())
    return tuple(found)


def tss_private_key(public: bytes, private: bytes) -> bytes:
    """Return a TPMKey as PEM (`BEGIN TSS2 PRIVATE KEY`): a wrapped key without password whose parent is the owner's SRK.

    `public` is a TPMT_PUBLIC, `private` a TPM2B_PRIVATE without size prefix. Source: TCG ASN.1 Specification for TPM 2.0 Key Files.
    """
    content = (
        _oid(LOADABLE_KEY),
        _der(0xA0, _der(0x01, b"\xff")),  # emptyAuth
        _der(0x02, _unsigned(OWNER)),
        _der(0x04, struct.pack(">H", len(public)) + public),
        _der(0x04, struct.pack(">H", len(private)) + private),
    )
    text = base64.b64encode(_der(0x30, *content)).decode()
    lines = "\n".join(textwrap.wrap(text, 64))
    return f"-----BEGIN TSS2 PRIVATE KEY-----\n{lines}\n-----END TSS2 PRIVATE KEY-----\n".encode()


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _unsigned(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def _oid(dotted: str) -> bytes:
    first, second, *rest = (int(arc) for arc in dotted.split("."))
    return _der(0x06, *(_base128(arc) for arc in (40 * first + second, *rest)))


def _base128(arc: int) -> bytes:
    digits = [arc & 0x7F]
    while arc := arc >> 7:
        digits.append(arc & 0x7F | 0x80)
    return bytes(reversed(digits))
