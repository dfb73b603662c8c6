"""S: behaviour over time: metadata, groups, fetches, producers, commits."""
