"""Family S: behaviour over time, such as metadata, groups, fetches, producers and commits."""
