"""The Authenticode digest of a PE image: what firmware extends into PCR4 when it loads the image.

Source: Windows Authenticode Portable Executable Signature Format, "Calculating the PE Image Hash"; TCG PC Client
Platform Firmware Profile, EV_EFI_BOOT_SERVICES_APPLICATION.
"""

import hashlib
import struct

_PE32_PLUS = 0x20B
_SECURITY_ENTRY = 4


def authenticode_sha256(image: bytes) -> str:
    """Return the digest in hex.

    Left out: the checksum, the entry of the certificate table, and the certificates themselves. The sections are
    hashed in order of their place in the file; what follows the last one is hashed too.

    Raises:
        ValueError: the bytes are no PE image.
    """
    if image[:2] != b"MZ":
        raise ValueError("not a PE image: no MZ header")
    (pe,) = struct.unpack_from("<I", image, 0x3C)
    if image[pe : pe + 4] != b"PE\0\0":
        raise ValueError("not a PE image: no PE signature")
    sections, optional_size = struct.unpack_from("<H12xH", image, pe + 6)
    optional = pe + 24
    (magic,) = struct.unpack_from("<H", image, optional)
    (headers_size,) = struct.unpack_from("<I", image, optional + 60)
    checksum = optional + 64
    directories = optional + (112 if magic == _PE32_PLUS else 96)
    security = directories + 8 * _SECURITY_ENTRY
    _, certificates = struct.unpack_from("<II", image, security)

    digest = hashlib.sha256()
    digest.update(image[:checksum])
    digest.update(image[checksum + 4 : security])
    digest.update(image[security + 8 : headers_size])
    hashed = headers_size
    for start, size in sorted(_section_places(image, optional + optional_size, sections)):
        digest.update(image[start : start + size])
        hashed += size
    digest.update(image[hashed : len(image) - certificates])
    return digest.hexdigest()


def _section_places(image: bytes, table: int, count: int) -> list[tuple[int, int]]:
    places = []
    for index in range(count):
        size, start = struct.unpack_from("<II", image, table + 40 * index + 16)
        if size:
            places.append((start, size))
    return places
