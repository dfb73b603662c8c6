"""Fetch without its waiting: what partitions have for a reader, and the sessions of readers (KIP-227)."""
