"""Metrics, computed from rows when they are asked for: workers fork and end, rows stay, and every process says the same."""
