"""One TPM: endorsement keys, the LAK, the LDevID, activation, quotes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tpm2_pytss import ESAPI, TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_SE
from tpm2_pytss.types import (
    TPM2B_ENCRYPTED_SECRET,
    TPM2B_ID_OBJECT,
    TPM2B_PRIVATE,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPMS_CONTEXT,
    TPMT_SIG_SCHEME,
    TPMT_SYM_DEF,
)

from fleet_machine.tpm.calls import (
    check_hierarchies,
    explained,
    flushed,
    leave_lockout,
    opened,
    read_nv,
    read_pcrs,
    selection,
    tcti_of,
)
from fleet_machine.tpm.errors import LoadRefusedError, TpmError
from fleet_machine.tpm.identity import TpmIdentity, read_chain, read_identity
from fleet_machine.tpm.keys import EndorsementKey, KeyPair, Quoted, Signed
from fleet_machine.tpm.templates import (
    HIGH_RANGE,
    L1,
    L2,
    P256,
    P384,
    EkKind,
    LakAlgorithm,
    lak_public,
    ldevid_public,
    sized,
    srk_public,
)

PCR_ATTEMPTS = 3
EK_LIMIT = 6
"""Endorsement keys that fleetd takes in one enrollment."""


@dataclass(frozen=True, slots=True)
class Lak:
    """A loaded LAK."""

    handle: Any
    public: bytes
    """TPMT_PUBLIC."""
    algorithm: LakAlgorithm
    context: bytes
    """The saved object: loads again quickly until the TPM is reset; of no use elsewhere."""


@contextmanager
def opened_tpm(device: str) -> Iterator["Tpm"]:
    """Open the TPM of a TCTI configuration, or this host's when it is ""; closed after the block.

    Raises TpmError.
    """
    with opened(tcti_of(device)) as esys:
        yield Tpm(esys)


class Tpm:
    """An open TPM. Every method raises TpmError (TpmOwnedError for a closed hierarchy)."""

    def __init__(self, esys: ESAPI) -> None:
        """Use an open ESAPI context."""
        self._esys = esys
        self._ek_contexts: dict[str, TPMS_CONTEXT] = {}

    def identity(self) -> TpmIdentity:
        """Return what the TPM says about itself."""
        with explained("tell its properties"):
            return read_identity(self._esys)

    def chain(self) -> tuple[bytes, ...]:
        """Return the CA certificates left in NV by the maker."""
        with explained("read its certificates"):
            return read_chain(self._esys)

    def endorsement_keys(self) -> tuple[EndorsementKey, ...]:
        """Return the EKs: L-1 and L-2 where the TPM can make them, and high-range ones that have a certificate."""
        with explained("tell the state of its hierarchies"):
            check_hierarchies(self._esys)
            leave_lockout(self._esys)
        keys: list[EndorsementKey] = []
        for kind in (L1, L2, *HIGH_RANGE):
            certificate = read_nv(self._esys, kind.certificate_index)
            if (kind in HIGH_RANGE and certificate is None) or len(keys) == EK_LIMIT:
                continue
            with suppress(TSS2_Exception), self._ek(kind) as (_handle, public):
                keys.append(EndorsementKey(kind.label, public, certificate))
        if not keys:
            raise TpmError("The TPM makes no endorsement key of a known kind.")
        return tuple(keys)

    @contextmanager
    def lak(self, unique: bytes, algorithm: LakAlgorithm | None, context: bytes | None) -> Iterator[Lak]:
        """Load the LAK of a `unique`, from a saved context when it still loads, else by making it again.

        Without an algorithm the first that the TPM has is taken.
        """
        with explained("make an attestation key"):
            lak = self._lak_from_context(unique, context) or self._make_lak(unique, algorithm)
        with flushed(self._esys, lak.handle):
            yield lak

    def activate(self, ek: EndorsementKey, lak: Lak, blob: bytes, secret: bytes) -> bytes:
        """Return the secret of a credential made for this EK and this LAK (TPM2_ActivateCredential).

        `blob` is a TPM2B_ID_OBJECT, `secret` a TPM2B_ENCRYPTED_SECRET, both with size prefix.
        """
        kind = next(kind for kind in (L1, L2, *HIGH_RANGE) if kind.label == ek.label)
        try:
            credential, _ = TPM2B_ID_OBJECT.unmarshal(blob)
            encrypted, _ = TPM2B_ENCRYPTED_SECRET.unmarshal(secret)
        except (TSS2_Exception, ValueError) as error:
            raise TpmError("The challenge holds a credential that is no TPM structure.") from error
        with (
            explained("activate the credential"),
            self._ek(kind) as (handle, _public),
            self._authorized(kind) as session,
        ):
            return bytes(
                self._esys.activate_credential(
                    lak.handle, handle, credential, encrypted, session1=ESYS_TR.PASSWORD, session2=session
                )
            )

    def make_ldevid(self) -> KeyPair:
        """Make a new LDevID under the owner's storage root key: P-256, or P-384 where the TPM has no P-256."""
        with explained("make a device identity key"), self._srk() as (srk, curve):
            template = TPM2B_PUBLIC.unmarshal(sized(ldevid_public(curve)))[0]
            private, public, *_ = self._esys.create(srk, TPM2B_SENSITIVE_CREATE(), template)
            return KeyPair(_unsized(public.marshal()), _unsized(private.marshal()))

    def certify(self, pair: KeyPair, lak: Lak, extra: bytes) -> Signed:
        """Certify the LDevID by the LAK. Raises LoadRefusedError when this TPM does not hold the pair."""
        with self.ldevid(pair) as handle, explained("certify the device identity key"):
            attest, signature = self._esys.certify(handle, lak.handle, extra, TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL))
            return Signed(bytes(attest), signature.marshal())

    @contextmanager
    def ldevid(self, pair: KeyPair) -> Iterator[Any]:
        """Load an LDevID. Raises LoadRefusedError."""
        with explained("make its storage root key"), self._srk() as (srk, _curve):
            try:
                private = TPM2B_PRIVATE.unmarshal(sized(pair.private))[0]
                public = TPM2B_PUBLIC.unmarshal(sized(pair.public))[0]
                handle = self._esys.load(srk, private, public)
            except TSS2_Exception as error:
                raise LoadRefusedError(f"The stored device identity key does not load in this TPM: {error}") from error
        with flushed(self._esys, handle):
            yield handle

    def quote(self, lak: Lak, bank: str, select: tuple[int, ...], extra: bytes) -> Quoted:
        """Quote PCRs and return the values that the quote covers; repeats when one is extended meanwhile."""
        with explained("quote its PCRs"):
            for _ in range(PCR_ATTEMPTS):
                pcrs = read_pcrs(self._esys, bank, select)
                attest, signature = self._esys.quote(lak.handle, selection(bank, select), extra)
                quoted = Quoted(Signed(bytes(attest), signature.marshal()), bank, pcrs)
                if read_pcrs(self._esys, bank, select) == pcrs:
                    return quoted
        raise TpmError("The PCRs change faster than they can be quoted.")

    def _lak_from_context(self, unique: bytes, context: bytes | None) -> Lak | None:
        if context is None or context[:32] != sha256(unique).digest():
            return None
        try:
            handle = self._esys.context_load(TPMS_CONTEXT.unmarshal(context[32:])[0])
        except (TSS2_Exception, ValueError):
            return None
        public = _unsized(self._esys.read_public(handle)[0].marshal())
        return Lak(handle, public, _algorithm_of(public), context)

    def _make_lak(self, unique: bytes, algorithm: LakAlgorithm | None) -> Lak:
        wanted = [algorithm] if algorithm else list(LakAlgorithm)
        for candidate in wanted:
            template = TPM2B_PUBLIC.unmarshal(sized(lak_public(candidate, unique)))[0]
            try:
                handle, public, *_ = self._esys.create_primary(
                    TPM2B_SENSITIVE_CREATE(), template, ESYS_TR.ENDORSEMENT, session1=ESYS_TR.PASSWORD
                )
            except TSS2_Exception:
                if candidate is wanted[-1]:
                    raise
                continue
            # The context is bound to its `unique`, so that a context of another run is never taken for this one.
            context = sha256(unique).digest() + self._esys.context_save(handle).marshal()
            return Lak(handle, _unsized(public.marshal()), candidate, context)
        raise TpmError("The TPM makes no attestation key.")

    @contextmanager
    def _srk(self) -> Iterator[tuple[Any, int]]:
        handle, curve = None, P256
        try:
            handle = self._primary(srk_public(P256), ESYS_TR.OWNER)
        except TSS2_Exception:
            # Some TPMs (Nuvoton NPCT75x with certain firmware) have no P-256.
            handle, curve = self._primary(srk_public(P384), ESYS_TR.OWNER), P384
        with flushed(self._esys, handle):
            yield handle, curve

    @contextmanager
    def _ek(self, kind: EkKind) -> Iterator[tuple[Any, bytes]]:
        handle, transient = self._ek_handle(kind)
        try:
            yield handle, _unsized(self._esys.read_public(handle)[0].marshal())
        finally:
            if transient:
                self._esys.flush_context(handle)

    def _ek_handle(self, kind: EkKind) -> tuple[Any, bool]:
        template = self._ek_template(kind)
        persistent = self._persistent_ek(kind, template)
        if persistent is not None:
            return persistent, False
        saved = self._ek_contexts.get(kind.label)
        if saved is not None:
            with suppress(TSS2_Exception):
                return self._esys.context_load(saved), True
        handle = self._primary(template, ESYS_TR.ENDORSEMENT)
        # An RSA EK takes many seconds on hardware; it is made once in the life of this object.
        with suppress(TSS2_Exception):
            self._ek_contexts[kind.label] = self._esys.context_save(handle)
        return handle, True

    def _persistent_ek(self, kind: EkKind, template: bytes) -> Any | None:
        if kind.persistent is None:
            return None
        with suppress(TSS2_Exception):
            handle = self._esys.tr_from_tpmpublic(kind.persistent)
            public = _unsized(self._esys.read_public(handle)[0].marshal())
            fixed = len(kind.public) - (258 if kind is L1 else 68)
            if template == kind.public and public[:fixed] == kind.public[:fixed]:
                return handle
        return None

    def _ek_template(self, kind: EkKind) -> bytes:
        """Return the template, with the maker's own template or nonce from NV where there is one."""
        stored = read_nv(self._esys, kind.template_index) if kind.template_index else None
        nonce = read_nv(self._esys, kind.nonce_index) if kind.nonce_index else None
        if stored is None:
            return kind.public if not nonce else _with_nonce(kind, nonce)
        return stored

    def _primary(self, template: bytes, hierarchy: Any) -> Any:
        public = TPM2B_PUBLIC.unmarshal(sized(template))[0]
        return self._esys.create_primary(TPM2B_SENSITIVE_CREATE(), public, hierarchy, session1=ESYS_TR.PASSWORD)[0]

    @contextmanager
    def _authorized(self, kind: EkKind) -> Iterator[Any]:
        if not kind.by_policy:
            yield ESYS_TR.PASSWORD
            return
        session = self._esys.start_auth_session(
            ESYS_TR.NONE, ESYS_TR.NONE, TPM2_SE.POLICY, TPMT_SYM_DEF(algorithm=TPM2_ALG.NULL), TPM2_ALG.SHA256
        )
        try:
            self._esys.policy_secret(ESYS_TR.ENDORSEMENT, session, b"", b"", b"", 0, session1=ESYS_TR.PASSWORD)
            yield session
        finally:
            with suppress(TSS2_Exception):
                self._esys.flush_context(session)


def _with_nonce(kind: EkKind, nonce: bytes) -> bytes:
    """Put the maker's nonce in front of the zeros of `unique` (EK Credential Profile, section B.4)."""
    if kind is L1:
        return kind.public[:-256] + nonce[:256].ljust(256, b"\0")
    return kind.public[:-68] + sized(nonce[:32].ljust(32, b"\0")) + sized(bytes(32))


def _algorithm_of(public: bytes) -> LakAlgorithm:
    if public[:2] == b"\x00\x01":
        return LakAlgorithm.RSA2048
    # type, nameAlg, attributes, empty policy, symmetric NULL, scheme and its hash, then the curve.
    return LakAlgorithm.P256 if int.from_bytes(public[16:18], "big") == P256 else LakAlgorithm.P384


def _unsized(marshalled: bytes) -> bytes:
    return bytes(marshalled[2:])
