"""The two listeners: machines outside, NetBox and Prometheus inside."""
