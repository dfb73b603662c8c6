"""Streams of traces that are being written: lines, queries over them, and their output."""
