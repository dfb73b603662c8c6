"""Compares two traces: connections, exchanges, and bodies field by field, except values that differ in every run."""
