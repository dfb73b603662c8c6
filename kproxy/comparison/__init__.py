"""Compares two traces: bodies field by field, exchanges, connections. It knows which values differ from run to run."""
