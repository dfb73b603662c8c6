"""Fetch sessions (KIP-227): the offsets that a connection fetches at, in requests that name only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.messages.message import Message
from dissectors.messages.topic_records import fetch_offsets
from dissectors.trackers.fetch_facts import continues_session, end_offsets, is_at_end
from dissectors.trackers.partitions import TopicPartition, topic_name_or_id

#: Sessions per connection (clients have one), and partitions per session; larger sessions are not tracked.
_MAX_SESSIONS = 2
_MAX_PARTITIONS = 20_000


class _Session:
    """The fetch offsets and last known end offsets of partitions. `behind` are the partitions with more records."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.behind: set[TopicPartition] = set()

    def set_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets.update(offsets)
        self._update_behind(offsets)

    def set_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        self.ends.update(ends)
        self._update_behind(ends)

    def forget(self, topic_partition: TopicPartition) -> None:
        self.offsets.pop(topic_partition, None)
        self.ends.pop(topic_partition, None)
        self.behind.discard(topic_partition)

    def _update_behind(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            offset = self.offsets.get(topic_partition)
            if offset is not None and self.ends.get(topic_partition, -1) > offset:
                self.behind.add(topic_partition)
            else:
                self.behind.discard(topic_partition)


class ClientFetchSessions:
    """The sessions of one connection. Requests without a session are answered from their own bodies.

    Source: KIP-227.
    """

    def __init__(self) -> None:
        self._sessions: BoundedDict[int, _Session] = BoundedDict(_MAX_SESSIONS)

    def open(self, session_id: int, request: Message, body: Mapping[str, Any]) -> None:
        """Start a session with the partitions of its first request and response."""
        offsets = fetch_offsets(request)
        if len(offsets) <= _MAX_PARTITIONS:
            self._sessions[session_id] = session = _Session()
            session.set_offsets(offsets)
            session.set_ends(end_offsets(request.body, body))

    def update(self, request: Message) -> None:
        """Apply what a request changes in its session."""
        body = request.body
        session_id = body.get("session_id", 0)
        session = self._sessions.get(session_id)
        if session is None:
            return
        for topic in body.get("forgotten_topics_data") or ():
            name = topic_name_or_id(topic)
            for partition in topic.get("partitions") or ():
                session.forget((name, partition))
        if body.get("topics"):
            session.set_offsets(fetch_offsets(request))
        if len(session.offsets) > _MAX_PARTITIONS:
            del self._sessions[session_id]

    def update_ends(self, request_body: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        """Apply the end offsets in a response to the session of its request."""
        if (session := self._find(request_body)) is not None:
            session.set_ends(end_offsets(request_body, body))

    def clear(self) -> None:
        """Forget all sessions, because requests may be missing."""
        self._sessions.clear()

    def offsets(self, request: RequestReceived | None) -> Mapping[TopicPartition, int]:
        """Return the offset of every partition that a request fetches; empty if it or its session is unknown."""
        if request is None or not request.message.well_formed:
            return {}
        request_body = request.message.body
        if continues_session(request_body):
            session = self._find(request_body)
            return session.offsets if session else {}
        return fetch_offsets(request.message)

    def ends(self, request_body: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[TopicPartition, int]:
        """Return the known end offsets of the partitions that a request fetches, given its response."""
        session = self._find(request_body) if continues_session(request_body) else None
        return session.ends if session else end_offsets(request_body, body)

    def lagging_partitions(
        self, request: RequestReceived, body: Mapping[str, Any]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the partitions of a request or its session that have unread records: (fetch offset, end offset)."""
        request_body = request.message.body
        if continues_session(request_body):
            session = self._find(request_body)
            if session is None or not session.behind:
                return {}
            return {
                topic_partition: (session.offsets[topic_partition], session.ends[topic_partition])
                for topic_partition in session.behind
            }
        if is_at_end(request_body, body):
            return {}
        offsets = self.offsets(request)
        return {
            topic_partition: (offsets[topic_partition], end)
            for topic_partition, end in end_offsets(request_body, body).items()
            if topic_partition in offsets and end > offsets[topic_partition]
        }

    def waits_at(self, topic_partition: TopicPartition, end: int) -> bool:
        """Whether a session fetches at this end offset, and as far as it knows the partition still ends there."""
        return any(
            session.offsets.get(topic_partition) == end == session.ends.get(topic_partition)
            for session in self._sessions.values()
        )

    def _find(self, request_body: Mapping[str, Any]) -> _Session | None:
        return self._sessions.get(request_body.get("session_id", 0))
