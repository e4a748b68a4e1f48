"""A thin skin over tpm2-pytss (1.2 to 3.0): open, translate errors, read NV, PCRs and properties.

All values cross this module as bytes; nothing outside `fleet_machine.tpm` sees a type of tpm2-pytss.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fleet_machine.tpm.errors import TpmError, TpmMissingError, TpmOwnedError

# libtss2 writes every refused command to standard error; a probe that is meant to fail would fill the console.
os.environ.setdefault("TSS2_LOG", "all+none")

from tpm2_pytss import ESAPI, TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_CAP
from tpm2_pytss.types import TPML_PCR_SELECTION

DEVICES = ("/dev/tpmrm0", "/dev/tpm0")
OPEN_ATTEMPTS, OPEN_PAUSE = 20, 0.1
NV_CHUNK = 512
NV_LIMIT = 16 * 1024

# Property tags, TPM_PT (part 2, section 6.13).
PERMANENT, STARTUP_CLEAR = 0x200, 0x201
IN_LOCKOUT = 0x200
"""Bit of TPMA_PERMANENT (part 2, section 8.6)."""

RC_FORMAT_ONE = 0x080
RC_BAD_AUTH, RC_AUTH_FAIL, RC_HIERARCHY = 0x0A2, 0x08E, 0x085


def tcti_of(device: str) -> str:
    """Return a TCTI configuration: as given, or of the first TPM device of this host.

    Raises TpmMissingError.
    """
    if device:
        return device
    for path in DEVICES:
        if Path(path).exists():
            return f"device:{path}"
    if Path("/sys/class/tpm/tpm0").exists():
        raise TpmMissingError("The kernel knows a TPM, but /dev/tpmrm0 is not in this container: mount /dev into it.")
    raise TpmMissingError("No TPM was found (no /dev/tpmrm0, no /dev/tpm0). Switch it on in the firmware setup.")


@contextmanager
def opened(tcti: str) -> Iterator[ESAPI]:
    """Open the TPM for the time of the block. Raises TpmError."""
    esys = _open_patiently(tcti)
    try:
        yield esys
    finally:
        esys.close()


def _open_patiently(tcti: str) -> ESAPI:
    """Open; /dev/tpm0 and a software TPM serve one user at a time, and the one before may just be leaving."""
    for left in reversed(range(OPEN_ATTEMPTS)):
        try:
            return ESAPI(tcti)
        except (TSS2_Exception, RuntimeError) as error:
            if not left:
                raise TpmMissingError(f"The TPM does not answer ({tcti.partition(':')[0]}): {error}") from error
            time.sleep(OPEN_PAUSE)
    raise AssertionError


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an error of the TPM into a TpmError that says what was being done."""
    try:
        yield
    except TSS2_Exception as error:
        raise _in_words(what, int(error.rc)) from error


def _in_words(what: str, rc: int) -> TpmError:
    base = rc & 0x0BF if rc & RC_FORMAT_ONE else rc
    if base in (RC_BAD_AUTH, RC_AUTH_FAIL, RC_HIERARCHY):
        return TpmOwnedError(
            f"The TPM refuses to {what} (0x{rc:x}): a hierarchy has a password or is switched off. "
            "Clear the TPM in the firmware setup."
        )
    return TpmError(f"The TPM refuses to {what} (0x{rc:x}).")


@contextmanager
def flushed(esys: ESAPI, handle: Any) -> Iterator[Any]:
    """Give a loaded object to the block and flush it afterwards: a TPM may hold three only."""
    try:
        yield handle
    finally:
        with suppress(TSS2_Exception):
            esys.flush_context(handle)


def read_nv(esys: ESAPI, index: int) -> bytes | None:
    """Return the content of an NV index; None when there is none, or when it cannot be read."""
    try:
        handle = esys.tr_from_tpmpublic(index)
    except TSS2_Exception:
        return None
    try:
        public, _name = esys.nv_read_public(handle)
        size = min(int(public.nvPublic.dataSize), NV_LIMIT)
        content = b""
        while len(content) < size:
            count = min(NV_CHUNK, size - len(content))
            content += _read_chunk(esys, handle, count, len(content))
    except TSS2_Exception:
        return None
    return content


def _read_chunk(esys: ESAPI, handle: Any, count: int, offset: int) -> bytes:
    try:
        return bytes(esys.nv_read(handle, count, offset, auth_handle=handle))
    except TSS2_Exception:
        # Some manufacturers let the index be read with the owner's (empty) password only.
        return bytes(esys.nv_read(handle, count, offset, auth_handle=ESYS_TR.OWNER))


def nv_indexes(esys: ESAPI, first: int, last: int) -> tuple[int, ...]:
    """Return the NV indexes defined from `first` to `last`, ascending."""
    found: list[int] = []
    start = first
    while start <= last:
        more, data = esys.get_capability(TPM2_CAP.HANDLES, start, 64)
        batch = [int(handle) for handle in data.data.handles]
        found += [handle for handle in batch if first <= handle <= last]
        if not more or not batch or batch[-1] >= last:
            break
        start = batch[-1] + 1
    return tuple(found)


def properties(esys: ESAPI, first: int, count: int) -> dict[int, int]:
    """Return TPM properties by tag, from `first` on."""
    _more, data = esys.get_capability(TPM2_CAP.TPM_PROPERTIES, first, count)
    return {int(item.property): int(item.value) for item in data.data.tpmProperties}


def read_pcrs(esys: ESAPI, bank: str, select: tuple[int, ...]) -> dict[int, bytes]:
    """Return the values of the selected PCRs; a bank that is not active yields nothing."""
    values: dict[int, bytes] = {}
    left = list(select)
    while left:
        _counter, got, digests = esys.pcr_read(selection(bank, tuple(left)))
        indexes = _selected(got)
        if not indexes:
            break
        values.update({index: bytes(digests[at]) for at, index in enumerate(indexes)})
        left = [index for index in left if index not in values]
    return values


def selection(bank: str, select: tuple[int, ...]) -> TPML_PCR_SELECTION:
    """Return a PCR selection of one bank."""
    return TPML_PCR_SELECTION.parse(f"{bank}:{','.join(str(index) for index in sorted(select))}")


def _selected(got: TPML_PCR_SELECTION) -> list[int]:
    indexes = []
    for bank in range(int(got.count)):
        item = got.pcrSelections[bank]
        for octet in range(int(item.sizeofSelect)):
            indexes += [octet * 8 + bit for bit in range(8) if int(item.pcrSelect[octet]) >> bit & 1]
    return indexes


def leave_lockout(esys: ESAPI) -> None:
    """End a dictionary attack lockout, which a few power cuts are enough to cause (part 1, section 19.8.6).

    A power-off without TPM2_Shutdown counts as a failed try when a protected key was used, and EKs are protected.
    Raises TpmError when the lockout hierarchy has a password.
    """
    if not properties(esys, PERMANENT, 1).get(PERMANENT, 0) & IN_LOCKOUT:
        return
    try:
        esys.dictionary_attack_lock_reset(ESYS_TR.LOCKOUT, session1=ESYS_TR.PASSWORD)
    except TSS2_Exception as error:
        raise TpmError(
            "The TPM is locked after too many power cuts or wrong passwords, and its lockout hierarchy has a password. "
            "Wait until it unlocks itself, or clear the TPM in the firmware setup."
        ) from error


def check_hierarchies(esys: ESAPI) -> None:
    """Raise TpmOwnedError when the endorsement or owner hierarchy is closed to this client."""
    permanent = properties(esys, PERMANENT, 1).get(PERMANENT, 0)
    startup = properties(esys, STARTUP_CLEAR, 1).get(STARTUP_CLEAR, 0x7)
    for name, owned, enabled in (
        ("owner", permanent & 0x1, startup & 0x2),
        ("endorsement", permanent & 0x2, startup & 0x4),
    ):
        if owned:
            raise TpmOwnedError(f"The TPM's {name} hierarchy has a password. Clear the TPM in the firmware setup.")
        if not enabled:
            raise TpmOwnedError(f"The TPM's {name} hierarchy is switched off. Switch it on in the firmware setup.")
