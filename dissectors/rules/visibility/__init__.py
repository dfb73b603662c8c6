"""Family K: what kproxy could not inspect."""
