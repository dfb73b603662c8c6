"""Interests: the topics that members of a consumer group subscribe to, by name and by pattern."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.consumer_member import ConsumerMember
from kproxy.broker.topics import Topic, Topics
from kproxy.filters.pattern import PatternError, compile_pattern


class SubscribedTopics:
    """The topics that members subscribe to; patterns are matched again when topics are created or deleted."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._matching: dict[str, frozenset[str]] = {}
        self._looked_at: frozenset[str] = frozenset()

    def refresh(self, patterns: Collection[str], visible: Callable[[str], bool]) -> None:
        """Match new patterns, or all of them if the set of topics has changed.

        Args:
            patterns: Of all members.
            visible: Whether the principal may see a topic.
        """
        if not patterns:
            self._matching.clear()
            return
        names = frozenset(topic.name for topic in self._topics)
        cached = self._matching if names == self._looked_at else {}
        self._matching = {
            pattern: cached[pattern]
            if pattern in cached
            else frozenset(filter(visible, filter(compile_matcher(pattern), names)))
            for pattern in patterns
        }
        self._looked_at = names

    def names(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of a member's topics, including missing ones."""
        return member.topics | self._matching.get(member.regex, frozenset())

    def topics(self, *members: ConsumerMember) -> list[Topic]:
        """Return the existing topics of members."""
        names = frozenset().union(*map(self.names, members))
        return [topic for name in names if (topic := self._topics.named(name)) is not None]

    def partitions(self, members: Iterable[ConsumerMember]) -> dict[str, int]:
        """Return the number of partitions of the members' topics, by topic id."""
        return {topic.id: len(topic.partitions) for topic in self.topics(*members)}


@functools.lru_cache(maxsize=256)
def compile_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole names against a pattern in RE2 syntax, of which filters support a subset.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    flag = "(?i)" if pattern.startswith("(?i)") else ""
    try:
        return compile_pattern(f"{flag}^({pattern.removeprefix(flag)})$")
    except PatternError as error:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        raise ApiError(Error.INVALID_REGULAR_EXPRESSION, message) from None
