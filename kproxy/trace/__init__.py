"""The trace: what a line holds, and how it is written and read."""
