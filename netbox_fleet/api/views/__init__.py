"""REST views by model, and the two endpoints of the service."""
