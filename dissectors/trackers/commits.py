"""Commits: the last acknowledged offset commit of each group and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import BytesSkipped, ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.partitions import TopicPartition, topic_name_or_id
from dissectors.trackers.state import ConnectionState

_MAX_COMMITS = 50_000

#: Group, topic (name if known) and partition.
CommitKey = tuple[str, str, int]


class Commit(NamedTuple):
    """A commit: offset, metadata, committer (member id, host, client id), and when it was acknowledged."""

    offset: int
    metadata: str
    committer: tuple[str, str, str | None]
    at: int


class CommitRegression(NamedTuple):
    """A commit with a lower offset than the previous one."""

    key: CommitKey
    previous: Commit
    commit: Commit


def commit_key(group: str, topic_partition: TopicPartition, connection: ConnectionState) -> CommitKey:
    """Return the key of a partition. It has the topic's name if known, even if the request version uses topic ids."""
    topic, partition = topic_partition
    return group, connection.run.topic_names.get(topic, topic), partition


@tracker(
    events=(ResponseReceived, BytesSkipped, ConnectionEnded),
    apis=("OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "DeleteGroups", "DeleteTopics"),
    broken=True,
)
class Commits:
    """The last commit of each group and partition.

    `regressions` are the commits in the current response to lower offsets, `negative` the commits to negative offsets.
    `advance` is the number of records by which the response moved offsets forward; None if that is unknown.
    A partition is dropped when its commit becomes uncertain because the response or other bytes were lost.
    """

    def __init__(self) -> None:
        self.regressions: list[CommitRegression] = []
        self.negative: list[tuple[CommitKey, Commit]] = []
        self.advance: int | None = None
        self._last: BoundedDict[CommitKey, Commit] = BoundedDict(_MAX_COMMITS)

    def last(self, key: CommitKey) -> Commit | None:
        """Return the last commit of a partition; None if it is unknown."""
        return self._last.get(key)

    def observe(self, event: ResponseReceived | BytesSkipped | ConnectionEnded, connection: ConnectionState) -> None:
        """Update the commits."""
        self.regressions, self.negative, self.advance = [], [], None
        if isinstance(event, ConnectionEnded):
            for request in event.unanswered:
                if request.message.api in ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete"):
                    self._forget_commits(request, connection)
        elif isinstance(event, BytesSkipped) or event.request_body is None or event.damaged or event.message is None:
            self._last.clear()
        elif event.message.api == "OffsetCommit" and event.message.well_formed:
            self._store_commits(event.request_body, event, connection)
        elif event.message.api == "DeleteGroups":
            deleted = set(event.request_body.get("groups_names") or ())
            for key in [key for key in self._last if key[0] in deleted]:
                del self._last[key]
        elif event.message.api == "DeleteTopics":  # the offsets of a topic are deleted with it
            request_body = event.request_body
            rows = request_body.get("topics") or [{"name": name} for name in request_body.get("topic_names") or ()]
            names = {commit_key("", (topic_name_or_id(row), 0), connection)[1] for row in rows}
            for key in [key for key in self._last if key[1] in names]:
                del self._last[key]
        elif event.request is not None:
            self._forget_commits(event.request, connection)

    def _store_commits(
        self, request_body: Mapping[str, Any], event: ResponseReceived, connection: ConnectionState
    ) -> None:
        assert event.message is not None
        group = request_body.get("group_id") or ""
        committer = (request_body.get("member_id") or "", host_of(connection.client), connection.client_id)
        advance, is_advance_known = 0, False
        refused_partitions = {
            topic_partition for topic_partition, row in _rows(event.message.body) if row.get("error_code")
        }
        for topic_partition, row in _rows(request_body):
            if topic_partition in refused_partitions:
                continue
            key = commit_key(group, topic_partition, connection)
            commit = Commit(row.get("committed_offset", -1), row.get("committed_metadata") or "", committer, event.at)
            if commit.offset < 0:
                self.negative.append((key, commit))
            previous = self._last.get(key)
            if previous is not None and 0 <= commit.offset < previous.offset:
                self.regressions.append(CommitRegression(key, previous, commit))
            self._last[key] = commit
            if previous is not None:
                is_advance_known = True
                advance += commit.offset - previous.offset
        if is_advance_known and not refused_partitions:
            self.advance = advance

    def _forget_commits(self, request: RequestReceived, connection: ConnectionState) -> None:
        body = request.message.body
        for topic_partition, _ in _rows(body):
            self._last.pop(commit_key(body.get("group_id") or "", topic_partition, connection), None)


def _rows(body: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
    for topic in body.get("topics") or ():
        name = topic_name_or_id(topic)
        for row in topic.get("partitions") or ():
            yield (name, row.get("partition_index", 0)), row
