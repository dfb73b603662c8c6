"""Stalls: why a group makes no progress, since when, and which member blocks which.

`members` finds the stalls of one member, `waits` those of the whole group, at a given time. `endings` calls them just
before a stall ends and keeps the result. `all_stalls` combines the stalls that last with those that have ended.
"""
