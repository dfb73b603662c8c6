"""The story of a healthy group that tests of stalls continue."""

from __future__ import annotations

from tests.kproxy.browse.group_story import Story


def two_members(*, until: float = 10) -> Story:
    """Return a story of members a and b in generation 1, with heartbeats from second 1 to `until`."""
    story = Story()
    story.joined(0, "a", "b")
    story.send_heartbeats(1, until, "a", "b")
    return story
