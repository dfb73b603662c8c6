"""Fetch, without the waiting: reading partitions, and fetch sessions (KIP-227)."""
