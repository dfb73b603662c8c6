"""The checks, a module per group."""
