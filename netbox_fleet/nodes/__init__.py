"""The nodes file inside NetBox: read, merged against what was last applied, and applied in one transaction."""
