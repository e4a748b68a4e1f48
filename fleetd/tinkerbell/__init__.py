"""Tinkerbell and Rufio (v0.25) through the Kubernetes API: the Provisioner and Power adapters, and what wakes them."""
