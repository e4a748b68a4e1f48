"""What machines and fleetd exchange: challenge tokens, session keys, sealed envelopes."""
