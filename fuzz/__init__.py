"""Fuzz targets: one module a parser. Run one with `python -m fuzz.fuzz_eventlog -max_total_time=60`."""
