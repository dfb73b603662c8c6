"""SubscribedTopics: the topics that members of a consumer group subscribe to, by name and by pattern."""

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
        self._matches: dict[str, frozenset[str]] = {}
        self._matched_names: frozenset[str] = frozenset()

    def refresh(self, patterns: Collection[str], visible: Callable[[str], bool]) -> None:
        """Match new patterns, or all of them if the set of topics has changed.

        Args:
            patterns: The patterns of all members.
            visible: Returns whether the principal may see a topic.
        """
        if not patterns:
            self._matches.clear()
            return
        names = frozenset(topic.name for topic in self._topics)
        cached = self._matches if names == self._matched_names else {}
        self._matches = {
            pattern: cached[pattern]
            if pattern in cached
            else frozenset(filter(visible, filter(compile_matcher(pattern), names)))
            for pattern in patterns
        }
        self._matched_names = names

    def names(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of a member's topics, including topics that do not exist."""
        return member.topics | self._matches.get(member.regex, frozenset())

    def topics(self, *members: ConsumerMember) -> list[Topic]:
        """Return the existing topics that members subscribe to."""
        names = frozenset().union(*map(self.names, members))
        return [topic for name in names if (topic := self._topics.by_name(name)) is not None]

    def partitions(self, members: Iterable[ConsumerMember]) -> dict[str, int]:
        """Return the number of partitions of the members' topics, by topic id."""
        return {topic.id: len(topic.partitions) for topic in self.topics(*members)}


@functools.lru_cache(maxsize=256)
def compile_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole names against an RE2 pattern; only a subset of RE2 is supported.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    flag = "(?i)" if pattern.startswith("(?i)") else ""
    try:
        return compile_pattern(f"{flag}^({pattern.removeprefix(flag)})$")
    except PatternError as error:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        raise ApiError(Error.INVALID_REGULAR_EXPRESSION, message) from None
