"""PCR values as messages and rows hold them: by bank and index, in hex."""

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.quote import VerifiedQuote

type PcrTexts = dict[str, dict[str, str]]


def pcr_values(sent: PcrTexts) -> dict[Bank, dict[int, bytes]]:
    """Return the PCR values of the banks that are known."""
    known = {bank.value for bank in Bank}
    return {
        Bank(bank): {int(index): bytes.fromhex(value) for index, value in values.items()}
        for bank, values in sent.items()
        if bank in known
    }


def quoted_pcrs(quote: VerifiedQuote | None) -> PcrTexts:
    """Return what the TPM vouched for; what a machine sent beside it is kept and shown nowhere."""
    if quote is None:
        return {}
    return {
        bank.value: {str(index): value.hex() for index, value in values.items()} for bank, values in quote.pcrs.items()
    }
