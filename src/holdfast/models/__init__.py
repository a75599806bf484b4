"""Models that can forget."""
