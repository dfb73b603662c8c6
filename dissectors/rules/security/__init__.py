"""Family X: security and other protocols."""
