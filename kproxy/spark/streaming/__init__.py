"""Traces as they are written: streams of their lines, queries over them, and where what these tell goes."""
