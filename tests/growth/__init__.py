"""Frames that grow in one place, and the work that kproxy does for them: it must not grow faster than the frame."""
