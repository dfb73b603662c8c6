"""A file per view: what its columns are, what is told below them, and what enter does."""
