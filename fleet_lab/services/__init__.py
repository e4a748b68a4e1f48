"""The services that the lab brings up: PostgreSQL, Valkey and NetBox, each private to one checkout, on loopback."""
