"""What the service reports: parsed strictly, bounded, and applied row by row."""
