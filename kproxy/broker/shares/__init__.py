"""Share groups (KIP-932): members, acquired records, acknowledgements."""
