"""Machines of the lab: a UEFI machine with a TPM in QEMU, and a light one that is only processes."""
