"""Counters in fixed memory."""
