"""The checks, with one module per group."""
