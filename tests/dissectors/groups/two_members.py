"""The story of a healthy group that tests of stalls continue."""

from __future__ import annotations

from tests.kproxy.browse.group_story import GroupStory


def two_members(*, until: float = 10) -> GroupStory:
    """Return a story of members a and b in generation 1, with heartbeats from second 1 to `until`."""
    story = GroupStory()
    story.join(0, "a", "b")
    story.send_heartbeats(1, until, "a", "b")
    return story
