"""Stalls: why a group makes no progress, since when, and which member blocks which.

`members` finds the stalls of one member at a given time, `waits` those of the whole group. `endings` calls them just
before a stall ends and keeps the result. `all_stalls` combines ongoing and ended stalls.
"""
