"""Inspection: the bytes of connections in, trace lines out."""
