"""Sends captured requests to a broker again, and compares its responses with the captured ones."""
