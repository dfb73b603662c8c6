"""S043: a committed offset that goes back, or exceeds the end of the partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.trackers.commits import CommitKey, Commits, commit_key
from dissectors.trackers.losses import LossCheck, Losses
from dissectors.trackers.partitions import TopicPartition, topic_name_or_id
from dissectors.trackers.record_data import RecordData, record_data
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_THRESHOLD = 3
_MAX_REPORTED = 10
_MAX_CLIENTS = 1000
_MAX_ENDS = 50_000
_LATEST = -1
#: Until its followers answer, a new leader may report a lower end than the previous leader. After missed frames, no end
#: is trusted for this long (ns), because the leader may be new.
_SETTLING_TIME = 10 * SECOND

#: Host and client id.
_Client = tuple[str, str | None]


class _Conflicts(Recurrence):
    """How often one client committed a lower offset than another, per group and partition."""


class _End:
    """The end of a partition as reported to a client: the topic id, if the version has it, and the end offset."""

    __slots__ = ("offset", "topic_id")

    def __init__(self, topic_id: str | None, offset: int) -> None:
        self.topic_id = topic_id
        self.offset = offset

    def update(self, topic_id: str | None, offset: int) -> None:
        """Raise the end. It is lowered only if the topic id has changed, because followers may lag."""
        if self.offset < offset or (topic_id != self.topic_id and None not in (topic_id, self.topic_id)):
            self.offset = offset
            self.topic_id = topic_id or self.topic_id


class _Ends:
    """Partition ends as reported to clients that commit."""

    def __init__(self) -> None:
        self.clients: BoundedDict[_Client, None] = BoundedDict(_MAX_CLIENTS)
        self.offsets: BoundedDict[tuple[_Client, str, int], _End] = BoundedDict(_MAX_ENDS)
        self.settled_at = 0
        self.losses = LossCheck()

    def update(self, client: _Client, event: ResponseReceived, message: Message, connection: ConnectionState) -> None:
        """Store the ends from a Fetch or ListOffsets response. ListOffsets has no topic ids."""
        if message.api == "Fetch":
            self._update_from_fetch(client, event, message, connection)
            return
        requested, names = _partitions_queried_for_end(event.request_body or {}), connection.run.topic_names
        for topic in message.body.get("topics") or ():
            name = topic_name_or_id(topic)
            name = names.get(name, name)
            for row in topic.get("partitions") or ():
                partition = row.get("partition_index", 0)
                if (name, partition) in requested:
                    self._set_end((client, name, partition), None, row.get("offset", -1))

    def _update_from_fetch(
        self, client: _Client, event: ResponseReceived, message: Message, connection: ConnectionState
    ) -> None:
        names = connection.run.topic_names
        for name, topic_id, partitions in topic_records(message):
            key = name or topic_id or ""
            for partition, row, _, _, _ in partitions:
                self._set_end((client, names.get(key, key), partition or 0), topic_id, row.get("high_watermark", -1))
        # A broker notes the high watermark before it reads the records, so they may extend beyond it.
        for part in record_data(event, connection).parts:
            if part.batches and (end := part.batches[-1].last_offset + 1) > part.row.get("high_watermark", -1):
                key, partition = part.topic_partition
                self._set_end((client, names.get(key, key), partition), None, end)

    def _set_end(self, key: tuple[_Client, str, int], topic_id: str | None, end: int) -> None:
        stored = self.offsets.get(key)
        if stored is None:
            self.offsets[key] = _End(topic_id, end)
        elif stored.offset != end or stored.topic_id != topic_id:
            stored.update(topic_id, end)


def _partitions_queried_for_end(request_body: Mapping[str, Any]) -> frozenset[TopicPartition]:
    """Return the partitions whose end a ListOffsets request asks for, not their start or the offset at a time."""
    return frozenset(
        (topic_name_or_id(topic), row.get("partition_index", 0))
        for topic in request_body.get("topics") or ()
        for row in topic.get("partitions") or ()
        if row.get("timestamp") == _LATEST
    )


@rule(
    "S043",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("OffsetCommit",),
    also=(Trigger((ResponseReceived,), ("Fetch", "ListOffsets"), only=FrameFlags.SUBSCRIBED),),
    needs=(Commits, Losses, RecordData),
    since="0.1",
    blame="client",
)
def commit_regressed(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that clients do not take turns committing one partition of a group, or commit beyond its end or below 0.

    ## Why it matters
    Each client undoes the other's progress: after the next restart, records are read twice or skipped. From an offset
    beyond the end, a consumer starts with OFFSET_OUT_OF_RANGE and resets. A single client that goes back is reported as
    info, because this may be intended.

    ## Usual cause
    Two consumers with the same group id and manually assigned partitions, or a consumer that continues after its
    partition was reassigned. Beyond the end: offsets of a topic that was deleted and recreated. Below 0: a client that
    takes "no offset" (-1) for an offset; OffsetFetch also returns -1 if nothing is committed. Info: a seek, or a reset
    with kafka-consumer-groups.

    ## Example
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 50}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 7}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    ```
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 50}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 60}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 60, "records": ""}]}]}
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 90}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    ```

    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    ```

    ## Look-alikes
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 50}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetCommit v7 {"group_id": "h", "topics": [{"name": "orders", "partitions": [{"committed_offset": 7}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 7}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 22}]}]}
    ```
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 50}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 60}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 60, "records": ""}]}]}
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"offset": 90}]}]}
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 90}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/2597
    https://kafka.apache.org/documentation/#design_consumerposition
    https://github.com/twmb/franz-go/issues/1426
    """
    message = event.message
    if message is None:
        return
    ends = connection.run.state(_Ends)
    if ends.losses.is_outdated(connection):
        ends.offsets.clear()
        ends.settled_at = event.at + _SETTLING_TIME
    client = (host_of(connection.client), connection.client_id)
    if message.api != "OffsetCommit":
        if client in ends.clients:
            ends.update(client, event, message, connection)
        return
    ends.clients[client] = None
    connection.run.subscribe("S043")
    yield from _regression_problems(connection)
    yield from _negative_commit_problems(connection)
    if event.at >= ends.settled_at:
        yield from _beyond_end_problems(event, client, ends, connection)


def _regression_problems(connection: ConnectionState) -> Iterator[Problem]:
    for key, previous, commit in connection.run.state(Commits).regressions[:_MAX_REPORTED]:
        group, topic, partition = key
        opening = (
            f"the committed offset of group {group!r} for {topic}[{partition}] goes back from {previous.offset} to "
        )
        if previous.committer == commit.committer:
            yield Problem(
                f"{opening}{commit.offset}",
                severity=Severity.INFO,
                hint="expected after a seek or a reset; otherwise the client commits an old position late",
                cause=f"{group} {topic}",
            )
            continue
        times = connection.run.state(_Conflicts).count(key, commit.at)
        repeated = times >= _THRESHOLD
        yield Problem(
            f"{opening}{commit.offset}, by client {commit.committer[2]!r} at {commit.committer[1]} after client "
            f"{previous.committer[2]!r} at {previous.committer[1]}" + (f", {times} times" if repeated else ""),
            severity=None if repeated else Severity.INFO,
            hint="check whether two consumers with the same group id read the same partitions",
            cause=f"{group} {topic} by another" + (" again" if repeated else ""),
        )


def _negative_commit_problems(connection: ConnectionState) -> Iterator[Problem]:
    for (group, topic, partition), commit in connection.run.state(Commits).negative[:_MAX_REPORTED]:
        yield Problem(
            f"client {commit.committer[2]!r} commits offset {commit.offset} of {topic}[{partition}] for group "
            f"{group!r}: the group loses its position, because OffsetFetch returns -1 if nothing is committed",
            hint="fix the client: commit the offset after the last record that it has processed, and nothing for "
            "partitions of which it has read none",
            expected="0 or more",
            got=str(commit.offset),
            cause=f"{group} {topic} negative",
        )


def _beyond_end_problems(
    event: ResponseReceived, client: _Client, ends: _Ends, connection: ConnectionState
) -> Iterator[Problem]:
    """Report commits beyond the end that was reported to the same client: it cannot have read those records."""
    request_body = event.request_body or {}
    commits = connection.run.state(Commits)
    reported = 0
    for topic in request_body.get("topics") or ():
        for row in topic.get("partitions") or ():
            topic_partition = (topic_name_or_id(topic), row.get("partition_index", 0))
            key: CommitKey = commit_key(request_body.get("group_id") or "", topic_partition, connection)
            reported_end = ends.offsets.get((client, key[1], key[2]))
            commit = commits.last(key)
            if reported_end is None or commit is None or commit.at != event.at or reported == _MAX_REPORTED:
                continue
            if not 0 <= (end := reported_end.offset) < commit.offset:
                continue
            reported += 1
            yield Problem(
                f"client {client[1]!r} commits offset {commit.offset} of {key[1]}[{key[2]}] for group {key[0]!r}, "
                f"but the broker reported to it that the partition ends at {end}",
                hint="reset the group's offsets for this topic; check whether it was deleted and recreated",
                expected=f"at most {end}",
                got=str(commit.offset),
                cause=f"{key[0]} {key[1]} behind",
            )
