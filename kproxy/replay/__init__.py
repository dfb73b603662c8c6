"""Sends captured requests to a broker again, and compares the responses with the captured ones."""
