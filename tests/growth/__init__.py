"""Frames that grow in one place, and the work that kproxy does for them, which must not grow faster than the frame."""
