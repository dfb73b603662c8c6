"""Interests: which topics the members of a consumer group read, by name and by pattern."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.consumer_member import ConsumerMember
from kproxy.broker.topics import Topic, Topics
from kproxy.filters.pattern import PatternError, compile_pattern


class Interests:
    """The topics that members subscribe to; patterns are looked up anew when topics have come or gone."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._matching: dict[str, frozenset[str]] = {}
        self._looked_at: frozenset[str] = frozenset()

    def refresh(self, patterns: Collection[str], visible: Callable[[str], bool]) -> None:
        """Look up patterns that are new, or all if there are other topics than before.

        Args:
            patterns: Of all members.
            visible: Whether who asks may know of a topic.
        """
        if not patterns:
            self._matching.clear()
            return
        names = frozenset(topic.name for topic in self._topics)
        known = self._matching if names == self._looked_at else {}
        self._matching = {
            each: known[each] if each in known else frozenset(filter(visible, filter(matcher(each), names)))
            for each in patterns
        }
        self._looked_at = names

    def names(self, member: ConsumerMember) -> frozenset[str]:
        """The names of a member's topics, whether there are such or not."""
        return member.topics | self._matching.get(member.regex, frozenset())

    def topics(self, *members: ConsumerMember) -> list[Topic]:
        """The topics of members that there are."""
        names = frozenset().union(*map(self.names, members))
        return [topic for name in names if (topic := self._topics.named(name)) is not None]

    def partitions(self, members: Iterable[ConsumerMember]) -> dict[str, int]:
        """How many partitions the topics of members have, by their ids."""
        return {topic.id: len(topic.partitions) for topic in self.topics(*members)}


@functools.lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """What says whether a whole name matches a pattern in RE2's syntax, of which this reads what filters do.

    Raises:
        Refused: INVALID_REGULAR_EXPRESSION.
    """
    flag = "(?i)" if pattern.startswith("(?i)") else ""
    try:
        return compile_pattern(f"{flag}^({pattern.removeprefix(flag)})$")
    except PatternError as error:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        raise Refused(Error.INVALID_REGULAR_EXPRESSION, message) from None
