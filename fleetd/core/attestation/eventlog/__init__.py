"""TCG event logs: framing, replay, and what they say about a boot."""
