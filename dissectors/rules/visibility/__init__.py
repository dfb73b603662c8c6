"""K: what kproxy could not see."""
