"""Connections: bytes to frames, and requests paired with their responses."""
