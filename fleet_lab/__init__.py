"""The lab: NetBox, PostgreSQL, Valkey, Tinkerbell, BMCs and machines with TPMs, real and small, on one host."""
