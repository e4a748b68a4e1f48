"""Text that firmware wrote, made fit to show."""

from uuid import UUID

MAX_SHOWN = 400


def firmware_text(data: bytes) -> str:
    """Return UTF-16 or ASCII text up to its terminator; a lone GUID in its usual form; anything else as it can be read.

    Line breaks stay, as in an SBAT level; no other control character does.
    """
    if len(data) == 16 and not _printable(data.rstrip(b"\x00")) and not _utf16(data):
        return str(UUID(bytes_le=data))
    text = data.decode("utf-16-le", "replace") if _utf16(data) else data.decode("utf-8", "replace")
    return _fit(text.partition("\x00")[0], keep="\n").strip()


def load_options(data: bytes) -> str:
    """Return UTF-16 load options, such as a kernel command line, on one line and whole."""
    return _fit(data.decode("utf-16-le", "replace").rstrip("\x00"))


def one_line(text: str) -> str:
    """Return the text on one line, without control characters, at most MAX_SHOWN characters long."""
    shown = _fit(text[: MAX_SHOWN + 1])
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…"


def _fit(text: str, keep: str = "") -> str:
    return "".join(each if each.isprintable() or each in keep else " " for each in text)


def _utf16(data: bytes) -> bool:
    return len(data) >= 4 and len(data) % 2 == 0 and data[0] != 0 and data[1] == 0 and data[3] == 0


def _printable(data: bytes) -> bool:
    return all(0x20 <= byte < 0x7F or byte in b"\t\r\n" for byte in data)
