"""Seeds: what a machine fetches once to become a node, rendered when it is fetched."""
