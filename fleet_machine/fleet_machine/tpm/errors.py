"""What can be wrong with a TPM, in words for the owner."""

from fleet_machine.failure import FleetError


class TpmError(FleetError):
    """The TPM cannot be used as this client needs it."""


class TpmMissingError(TpmError):
    """No TPM 2.0 was found."""


class TpmOwnedError(TpmError):
    """A hierarchy is closed: it has an authorization value or is switched off (finding `tpm-owned`)."""


class LoadRefusedError(TpmError):
    """A stored key pair does not load: the TPM was cleared since, or it is another TPM's."""
