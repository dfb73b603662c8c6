"""Rows: exchanges, indexed, filtered and sorted; their lines stay in the store."""
