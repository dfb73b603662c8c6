"""Overviews of a trace, one module per view."""
