"""V: version negotiation."""
