"""Habits: repeated behaviour of a client that costs it or the broker more than necessary. Each rule has limits."""
