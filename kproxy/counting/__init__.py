"""Counters in bounded memory."""
