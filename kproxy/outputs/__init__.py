"""Outputs of trace lines besides the trace itself: text, JSON, reports, summaries."""
