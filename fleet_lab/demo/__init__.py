"""The demo: everything up on loopback, one machine walked from power-on to active, everything down again."""
