"""X: security and other protocols."""
