"""Requests and responses: whole frames, the facts they state, and what their values mean."""
