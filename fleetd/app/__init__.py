"""Use cases: load, decide, act, persist; the only place where core meets the adapters."""
