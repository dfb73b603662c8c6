"""The partitions in a request about a group's offsets, with a result for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.access import is_allowed
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.group import PartitionCheck
from kproxy.broker.groups.offsets import CommittedOffset, TopicPartition
from kproxy.broker.groups.settings import GroupSettings
from kproxy.broker.pacing import paced
from kproxy.broker.request import Request
from kproxy.broker.topics import Topic, Topics


@dataclass(slots=True)
class OffsetRow:
    """A partition in a request; `topic` is None if the topic does not exist."""

    entry: Mapping[str, Any]
    topic: Topic | None
    error: Error = Error.NONE


class OffsetRows:
    """The partitions under `topics` in OffsetCommit, TxnOffsetCommit or OffsetDelete."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._by_topic: list[tuple[Mapping[str, Any], list[OffsetRow]]] = []

    @classmethod
    async def from_request(cls, request: Request) -> Self:
        """Return the rows of a request. Rows of unknown or unauthorized partitions have an error."""
        rows = cls(request)
        topics = request.cluster.part(Topics)
        async for entry in paced(request.body["topics"]):
            try:
                topic, error = topics.find(entry.get("name"), entry.get("topic_id")), Error.NONE
            except ApiError as api_error:
                topic, error = None, api_error.error
            # Clients without READ permission must not learn whether a topic exists.
            name = entry.get("name") if topic is None else topic.name
            if name is not None and not is_allowed(request, "READ", "TOPIC", name):
                error = Error.TOPIC_AUTHORIZATION_FAILED
            topic_rows = [OffsetRow(partition, topic, error) async for partition in paced(entry["partitions"])]
            rows._by_topic.append((entry, topic_rows))
        async for row in paced(rows.valid_rows()):
            if not 0 <= row.entry["partition_index"] < len(row.topic.partitions if row.topic else ()):
                row.error = Error.UNKNOWN_TOPIC_OR_PARTITION
        return rows

    def __iter__(self) -> Iterator[OffsetRow]:
        return (row for _, rows in self._by_topic for row in rows)

    def valid_rows(self) -> list[OffsetRow]:
        """Return the rows that have no error so far."""
        return [row for row in self if row.error is Error.NONE]

    @contextmanager
    def recording_errors(self, rows: Collection[OffsetRow]) -> Iterator[None]:
        """Catch an `ApiError` from the block, and record it in each of these rows."""
        try:
            yield
        except ApiError as api_error:
            for row in rows:
                row.error = api_error.error

    def commits(
        self, rows: Iterable[OffsetRow], check: PartitionCheck, expires: int | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets to commit; rows whose metadata is too long get an error instead.

        Args:
            rows: The partitions.
            check: Called for each partition; may raise `ApiError`.
            expires: When the offsets expire, in ms since the epoch.
        """
        cluster = self._request.cluster
        now_ms, max_length = cluster.clock.now(), cluster.part(GroupSettings).max_metadata_size
        offsets = {}
        for row in rows:
            assert row.topic is not None
            index, metadata = row.entry["partition_index"], row.entry["committed_metadata"] or ""
            if len(metadata) > max_length:
                row.error = Error.OFFSET_METADATA_TOO_LARGE
                continue
            check(row.topic.id, index)
            committed_at = row.entry.get("commit_timestamp", -1)
            offsets[row.topic.name, index] = CommittedOffset(
                row.entry["committed_offset"],
                row.entry.get("committed_leader_epoch", -1),
                metadata,
                now_ms if committed_at == -1 else committed_at,
                row.topic.id,
                expires,
            )
        return offsets

    def response_topics(self) -> list[dict[str, Any]]:
        """Return the topics of the response."""
        return [
            {
                "name": entry.get("name", ""),
                "topic_id": entry.get("topic_id", NULL_UUID),
                "partitions": [
                    {"partition_index": row.entry["partition_index"], "error_code": row.error} for row in rows
                ],
            }
            for entry, rows in self._by_topic
        ]
