"""S089: a latest offset from ListOffsets that lies below an offset that the same broker has shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import topic_name_or_id
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_MAX_PARTITIONS = 10_000
#: Offsets older than this (ns) are not compared: the topic may have been recreated, or its leader may have changed.
_MAX_AGE = 10 * SECOND
#: Fetches are observed for this long (ns) after a request for the latest offset.
_OBSERVATION_NS = SECOND
_LATEST, _EARLIEST = -1, -2

#: Server, topic (its name if known) and partition.
_Key = tuple[str, str, int]


class _Offsets:
    """The starts of partitions from ListOffsets and their high watermarks from fetches, each with its time (ns).

    `asked_times` holds when each high watermark was last needed: tools also ask about partitions that nobody reads.
    `needed` holds the partitions, by server and topic, whose high watermark no fetch has shown since then.
    """

    def __init__(self) -> None:
        self.requested_at = 0
        self.needed: dict[tuple[str, str], set[int]] = {}
        self.asked_times: BoundedDict[_Key, int] = BoundedDict(_MAX_PARTITIONS)
        self.starts: BoundedDict[_Key, tuple[int, int]] = BoundedDict(_MAX_PARTITIONS)
        self.watermarks: BoundedDict[_Key, tuple[int, int]] = BoundedDict(_MAX_PARTITIONS)
        self._needed_count = 0

    def note_needed(self, key: _Key, at: int) -> None:
        """Note that the high watermark of a partition is needed."""
        if at - self.requested_at > _OBSERVATION_NS:
            self.needed.clear()
            self._needed_count = 0
        self.asked_times[key] = self.requested_at = at
        if self._needed_count < _MAX_PARTITIONS:
            self._needed_count += 1
            self.needed.setdefault(key[:2], set()).add(key[2])


@rule(
    "S089",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("ListOffsets",),
    also=(Trigger((ResponseReceived,), ("Fetch",), only=FrameFlags.SUBSCRIBED),),
    since="0.1",
    blame="broker",
)
def latest_below_the_end(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the latest offset from ListOffsets is not below the high watermark, or below the earliest offset.

    ## Why it matters
    A consumer with auto.offset.reset=latest begins at this offset, and tools compute the lag from it: they read old
    records again, or stop before the end.

    ## Usual cause
    A server that returns the earliest offset for both timestamps, or that returns the end of another part of the log.

    The offset is compared with offsets that the same server returned within 10 s before the request. The high watermark
    is that of the first fetch within 1 s after a request for the latest offset; it is compared with the next latest
    offset.

    ## Example
    ```story
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 0}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 20}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 40, "records": ""}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 0}]}]}
    ```
    ```story
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 9}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 0}]}]}
    ```

    ## Look-alikes
    The last stable offset, and records that are written in the meantime:
    ```story
    > ListOffsets v4 {"isolation_level": 1, "topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 20}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 30}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 20}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 40, "records": ""}]}]}
    > ListOffsets v4 {"isolation_level": 1, "topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 20}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 41}]}]}
    ```

    ## Sources
    https://github.com/aiven/inkless/pull/224
    https://kafka.apache.org/protocol#The_Messages_ListOffsets
    """
    message, request_body = event.message, event.request_body
    offsets = connection.run.state(_Offsets)
    if message is None or request_body is None or event.request is None or message.diagnosis is not None:
        return
    if message.api == "Fetch":
        _store_watermarks(event, message.body, offsets, connection)
        return
    timestamps = {
        (topic_name_or_id(topic), row.get("partition_index", 0)): row.get("timestamp", 0)
        for topic in request_body.get("topics") or ()
        for row in topic.get("partitions") or ()
    }
    for i, topic in enumerate(message.body.get("topics") or ()):
        for j, row in enumerate(topic.get("partitions") or ()):
            topic_partition, offset = (topic_name_or_id(topic), row.get("partition_index", 0)), row.get("offset", -1)
            timestamp, key = timestamps.get(topic_partition), _partition_key(*topic_partition, connection)
            if row.get("error_code") or offset < 0 or request_body.get("isolation_level"):
                continue
            if timestamp == _EARLIEST:
                offsets.starts[key] = offset, event.at
            if timestamp != _LATEST:
                continue
            requested_at = event.request.at
            watermark, start = (
                _recent_offset(known_offsets, key, requested_at)
                for known_offsets in (offsets.watermarks, offsets.starts)
            )
            if watermark < 0 and event.at - offsets.asked_times.get(key, -_MAX_AGE) >= _MAX_AGE:
                offsets.note_needed(key, event.at)
                connection.run.subscribe("S089")
            if offset < max(watermark, start):
                source = "the high watermark of a fetch" if watermark > offset else "the earliest offset"
                yield Problem(
                    f"ListOffsets returned {offset} as the latest offset of {key[1]}[{key[2]}], but "
                    f"{connection.server} has returned {max(watermark, start)} as {source} before",
                    **locate(message, "topics", i, "partitions", j, "offset"),
                    hint="fix the server: for timestamp -1 it returns the offset of the next record that is written",
                    expected=f"{max(watermark, start)} or more",
                    got=str(offset),
                    cause=key[1],
                )


def _store_watermarks(
    event: ResponseReceived, body: Mapping[str, Any], offsets: _Offsets, connection: ConnectionState
) -> None:
    """Store the high watermark of each partition whose latest offset was requested."""
    if event.at - offsets.requested_at > _OBSERVATION_NS or not offsets.needed:
        connection.run.unsubscribe("S089")
        return
    server, names = connection.server, connection.run.topic_names
    for topic in body.get("responses") or ():
        name = topic_name_or_id(topic)
        name = names.get(name, name)
        if (needed := offsets.needed.get((server, name))) is None:
            continue
        for row in topic.get("partitions") or ():
            partition = row.get("partition_index", 0)
            if partition in needed and not row.get("error_code"):
                needed.discard(partition)
                offsets.watermarks[server, name, partition] = row.get("high_watermark", -1), event.at
        if not needed:
            del offsets.needed[server, name]


def _partition_key(topic: str, partition: int, connection: ConnectionState) -> _Key:
    return connection.server, connection.run.topic_names.get(topic, topic), partition


def _recent_offset(offsets: BoundedDict[_Key, tuple[int, int]], key: _Key, at: int) -> int:
    """Return the offset seen before a request was sent at `at` (ns), or -1 if it is unknown, newer or too old."""
    offset, seen_at = offsets.get(key, (-1, at))
    return offset if 0 < at - seen_at <= _MAX_AGE else -1
