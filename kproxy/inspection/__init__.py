"""Inspection: turns the bytes of connections into trace lines."""
