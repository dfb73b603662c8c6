"""Streams of traces that are being written: lines, queries over lines, and the output of queries."""
