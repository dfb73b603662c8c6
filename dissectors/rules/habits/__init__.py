"""Habits: what a client does again and again that costs it, or the broker, more than it has to. Each has limits."""
