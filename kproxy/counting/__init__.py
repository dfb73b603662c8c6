"""Counters that use a bounded amount of memory."""
