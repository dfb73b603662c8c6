"""Habits of clients: a bad and a fixed variant of each, with real clients."""
