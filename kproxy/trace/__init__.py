"""The trace: definition, encoding, writing and reading of its lines."""
