"""Commits: the offset that each group has committed last, as far as the run has seen it acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import BytesSkipped, ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.partitions import Place, topic_of
from dissectors.trackers.state import ConnectionState

_MOST_COMMITS = 50_000

#: Group, topic (by name where that is known) and partition.
Key = tuple[str, str, int]


class Commit(NamedTuple):
    """What was committed, by whom (member id, host, client id), and when that was acknowledged."""

    offset: int
    metadata: str
    committer: tuple[str, str, str | None]
    at: int


class StepBack(NamedTuple):
    """A commit below the one before."""

    key: Key
    before: Commit
    now: Commit


def key_of(group: str, place: Place, connection: ConnectionState) -> Key:
    """Topics by name, whichever of name and id the version has."""
    topic, partition = place
    return group, connection.run.topic_names.get(topic, topic), partition


@tracker(
    events=(ResponseReceived, BytesSkipped, ConnectionEnded),
    apis=("OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "DeleteGroups"),
    broken=True,
)
class Commits:
    """The last commit of each group and partition; `back` are those of the response at hand that went back.

    What was not seen for sure is forgotten: commits whose answer was lost, or that stand in lost bytes.
    """

    def __init__(self) -> None:
        self.back: list[StepBack] = []
        self._last: BoundedDict[Key, Commit] = BoundedDict(_MOST_COMMITS)

    def last(self, key: Key) -> Commit | None:
        """What stands for this partition, None if that is not known."""
        return self._last.get(key)

    def observe(self, event: ResponseReceived | BytesSkipped | ConnectionEnded, connection: ConnectionState) -> None:
        """Take in an acknowledged commit."""
        self.back = []
        if isinstance(event, ConnectionEnded):
            for request in event.unanswered:
                if request.message.api in ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete"):
                    self._forget(request, connection)
        elif isinstance(event, BytesSkipped) or event.request_body is None or event.damaged or event.message is None:
            self._last.clear()
        elif event.message.api == "OffsetCommit" and event.message.well_formed:
            self._commit(event.request_body, event, connection)
        elif event.message.api == "DeleteGroups":
            gone = set(event.request_body.get("groups_names") or ())
            for key in [key for key in self._last if key[0] in gone]:
                del self._last[key]
        elif event.request is not None:
            self._forget(event.request, connection)

    def _commit(self, asked: Mapping[str, Any], event: ResponseReceived, connection: ConnectionState) -> None:
        assert event.message is not None
        group = asked.get("group_id") or ""
        committer = (asked.get("member_id") or "", host_of(connection.client), connection.client_id)
        refused = {place for place, row in _rows(event.message.body) if row.get("error_code")}
        for place, row in _rows(asked):
            if place in refused:
                continue
            key = key_of(group, place, connection)
            now = Commit(row.get("committed_offset", -1), row.get("committed_metadata") or "", committer, event.at)
            before = self._last.get(key)
            if before is not None and 0 <= now.offset < before.offset:
                self.back.append(StepBack(key, before, now))
            self._last[key] = now

    def _forget(self, request: RequestReceived, connection: ConnectionState) -> None:
        body = request.message.body
        for place, _ in _rows(body):
            self._last.pop(key_of(body.get("group_id") or "", place, connection), None)


def _rows(body: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    for topic in body.get("topics") or ():
        name = topic_of(topic)
        for row in topic.get("partitions") or ():
            yield (name, row.get("partition_index", 0)), row
