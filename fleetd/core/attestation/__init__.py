"""Verification of what a TPM says about itself, its keys and its boot."""
