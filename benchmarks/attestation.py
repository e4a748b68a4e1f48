"""How fast evidence is judged, on one core, and how that compares with the tools of the TPM software stack.

The material is made on the spot: a log of 40 KiB with two banks, and keys that sign like a TPM's.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.verdict import at_least
from fleetd.core.attestation.attest import TpmClock
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.baseline import take_baseline
from fleetd.core.attestation.certificate import parse_certificate
from fleetd.core.attestation.chain import find_path
from fleetd.core.attestation.clock import EarlierClock
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.replay import replay, replay_all
from fleetd.core.attestation.policy import AttestationPolicy, InstallBoot, InstallPolicy
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.attestation.structures import Curve
from fleetd.core.attestation.transcript import Label, Transcript, extra_data
from fleetd.core.attestation.verdict import (
    CheckEvidence,
    CheckExpectation,
    CheckResult,
    verify_check,
)
from tests.unit.attestation import maker
from tests.unit.attestation.evidence import LogBuilder, PretendTpmKey, QuoteParts, a_boot, ecc_key, rsa_key

SECONDS = 1.0
POLICY = AttestationPolicy(install=InstallPolicy(boot=InstallBoot.NETWORK_TRUSTED))


def rate(work: Callable[[], object]) -> float:
    """Calls a second of one core's time, the best of three: what other processes take does not count."""
    best = 0.0
    for _ in range(3):
        calls, begin = 0, time.process_time()
        while (spent := time.process_time() - begin) < SECONDS / 3:
            for _ in range(20):
                work()
            calls += 20
        best = max(best, calls / spent)
    return best


def log_of_40_kib() -> bytes:
    """A log like that of a server with GRUB: about 110 events, some of them large."""
    log: LogBuilder = a_boot(dbx=250)
    step = 0
    while len(log.bytes()) < 40 * 1024:
        step += 1
        log.add(8, kinds.IPL, b"grub_cmd: " + b"x" * 150 + str(step).encode())
    return log.bytes()


def a_check(key: PretendTpmKey) -> Callable[[], object]:
    """One boot check without a log, as a machine sends it every hour."""
    pcrs = {Bank.SHA256: a_boot().pcrs[Bank.SHA256]}
    nonce, transcript = bytes(32), Transcript(bytes(32))
    selection = PcrSelection.of(Bank.SHA256, *POLICY.select)
    parts = QuoteParts(key, pcrs, selection, extra_data(Label.CHECK, nonce, transcript))
    raw, signature = parts.signed()
    evidence = CheckEvidence(raw, signature, pcrs)
    expected = CheckExpectation(key.public, nonce, transcript, selection)
    baseline = take_baseline(Bank.SHA256, pcrs[Bank.SHA256], POLICY.select, None)
    earlier = EarlierClock(TpmClock(parts.clock[0] - 3_600_000, *parts.clock[1:3], safe=True), 3600.0)

    def check() -> object:
        verdict = verify_check(evidence, expected, baseline, POLICY, earlier)
        assert verdict.result is CheckResult.OK
        return verdict

    return check


def a_chain() -> Callable[[], object]:
    """A path of two links from a certificate that is read already, signed with RSA-2048 as most manufacturers do.

    Each time with another certificate: what was found out about one is not remembered for the next.
    """
    root = maker.Ca("root", key=maker.rsa_key(name="root"))
    issuing = maker.Ca("issuing", root, key=maker.rsa_key(name="issuing"))
    key = maker.ecc_key().public_key()
    leaves = cycle(parse_certificate(maker.ek_certificate(issuing, key)) for _ in range(200))
    store = TrustStore.of(manufacturers=[root.parsed], links=[issuing.parsed])

    def check() -> object:
        path = find_path(next(leaves), store, (), maker.NOW)
        assert path.trusted
        return path

    return check


def a_check_by_pytss(key: PretendTpmKey) -> Callable[[], object] | None:
    """The same checks of a quote with tpm2-pytss; None where it is not installed."""
    try:
        from tpm2_pytss.types import TPMS_ATTEST, TPMT_PUBLIC, TPMT_SIGNATURE
    except ImportError:
        return None
    pcrs = a_boot().pcrs[Bank.SHA256]
    nonce, wanted = bytes(32), list(POLICY.select)
    raw, signature = QuoteParts(key, {Bank.SHA256: pcrs}, POLICY.selection, nonce).signed()
    public = TPMT_PUBLIC.unmarshal(key.public.raw)[0]
    signer = hashlib.sha256(b"\x40\x00\x00\x0b" + bytes(public.get_name())).digest()

    def check() -> object:
        attest = TPMS_ATTEST.unmarshal(raw)[0]
        assert int(attest.magic) == 0xFF544347
        assert bytes(attest.extraData) == nonce
        assert bytes(attest.qualifiedSigner)[2:] == signer
        (selection,) = attest.attested.quote.pcrSelect
        bits = int.from_bytes(bytes(selection.pcrSelect)[:3], "little")
        assert [pcr for pcr in range(24) if bits >> pcr & 1] == wanted
        values = b"".join(pcrs[pcr] for pcr in wanted)
        assert bytes(attest.attested.quote.pcrDigest) == hashlib.sha256(values).digest()
        TPMT_SIGNATURE.unmarshal(signature)[0].verify_signature(public, raw)
        return attest

    return check


def seconds_of(command: list[str]) -> float | None:
    """The time of one call of a tool, its start included, the best of five; None where it is missing or fails."""
    best = None
    for _ in range(5):
        begin = time.perf_counter()
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            return None
        spent = time.perf_counter() - begin
        best = spent if best is None else min(best, spent)
    return best


def compare(raw_log: bytes) -> None:
    """Print how many times faster than the TPM software stack we are; the tools' times include their start."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = ecc_key()
    ours = rate(a_check(key))
    theirs = a_check_by_pytss(key)
    if theirs is not None:
        at_least("boot-check-vs-tpm2-pytss", ours / rate(theirs), "times", 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = QuoteParts(key, {Bank.SHA256: a_boot().pcrs[Bank.SHA256]}, POLICY.selection)
        attest, signature = parts.signed()
        pem = key.public.to_public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for file, content in (("log", raw_log), ("attest", attest), ("signature", signature), ("pem", pem)):
            (folder / file).write_bytes(content)
        checked = seconds_of(
            [
                "tpm2_checkquote",
                "-u",
                f"{name}/pem",
                "-m",
                f"{name}/attest",
                "-s",
                f"{name}/signature",
                "-g",
                "sha256",
                "-q",
                "00" * 32,
            ]
        )
        if checked is not None:
            at_least("boot-check-vs-tpm2_checkquote", ours * checked, "times", 1)
        replayed = seconds_of(["tpm2_eventlog", f"{name}/log"])
        if replayed is not None:
            at_least("log-replay-vs-tpm2_eventlog", rate(lambda: replay_all(parse_log(raw_log))) * replayed, "times", 1)


def main() -> None:
    """Print one line a measurement."""
    raw = log_of_40_kib()
    at_least("log-replay-judged-bank", rate(lambda: replay(parse_log(raw), Bank.SHA256)), "logs/s", 3000)
    at_least("log-replay-all-banks", rate(lambda: replay_all(parse_log(raw))), "logs/s", 1200)
    at_least("boot-check-p256", rate(a_check(ecc_key())), "checks/s", 11000)
    at_least("boot-check-rsa2048", rate(a_check(rsa_key())), "checks/s", 11000)
    at_least("boot-check-p384", rate(a_check(ecc_key(Curve.P384, hashed=Bank.SHA384))), "checks/s", 1500)
    at_least("ek-chain-2-links", rate(a_chain()), "chains/s", 8000)
    compare(raw)


if __name__ == "__main__":
    main()
