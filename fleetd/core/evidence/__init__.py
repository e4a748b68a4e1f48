"""Signed records of what was erased and withdrawn: how they are made, checked and shown."""
