"""Everything that the client asks of a TPM 2.0."""

from fleet_machine.tpm.device import Lak, Tpm, opened_tpm
from fleet_machine.tpm.keys import EndorsementKey, KeyPair, Quoted, Signed
from fleet_machine.tpm.templates import LakAlgorithm

__all__ = ["EndorsementKey", "KeyPair", "Lak", "LakAlgorithm", "Quoted", "Signed", "Tpm", "opened_tpm"]
