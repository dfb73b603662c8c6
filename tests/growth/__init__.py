"""Test that the work that kproxy does for a frame does not grow faster than the frame, whichever part grows."""
