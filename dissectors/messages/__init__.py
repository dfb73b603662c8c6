"""Requests and responses: decoding of whole frames, summaries, annotations of values, secret fields."""
