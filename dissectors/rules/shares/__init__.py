"""Share groups (KIP-932): acquired records, acknowledgements, deliveries and share sessions."""
