"""Family V: version negotiation."""
