"""S087: a consumer that takes a refused OffsetFetch for "nothing is committed"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.fetch_facts import requested_partitions
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_MAX_PARTITIONS = 10_000
#: A fetch that comes later than this (ns) after the refusal has some other reason.
_MAX_DELAY = 30 * SECOND
_ENDS = {-1: "end", -2: "start"}

#: The host and client id of a consumer, and a partition with its topic's name if that is known.
_ConsumerPartition = tuple[str, str | None, TopicPartition]


class _Refusal(NamedTuple):
    group: str
    code: int
    at: int


class _Positions:
    """By consumer and partition: the latest refused OffsetFetch, and the start and end that ListOffsets returned."""

    def __init__(self) -> None:
        self.refused: BoundedDict[_ConsumerPartition, _Refusal] = BoundedDict(_MAX_PARTITIONS)
        self.refused_at = 0
        self.listed: BoundedDict[_ConsumerPartition, dict[str, int]] = BoundedDict(_MAX_PARTITIONS)


@rule(
    "S087",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("OffsetFetch",),
    only=FrameFlags.REFUSED,
    also=(
        Trigger((ResponseReceived,), ("ListOffsets",)),
        Trigger((RequestReceived,), ("Fetch",), only=FrameFlags.SUBSCRIBED),
    ),
    complete_for=30,
    since="0.1",
    blame="client",
)
def committed_offset_ignored(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a consumer repeats a refused OffsetFetch before it reads from the end or the start.

    ## Why it matters
    The consumer reads as if its group had never committed: from the end, so it skips records, or from the start, so it
    reads all of them again. Its next commit overwrites the right offset.

    ## Usual cause
    A client that ignores the error of the group or of the partition in the response, and applies auto.offset.reset.
    STALE_MEMBER_EPOCH means that the member has a newer epoch by now; most other errors are also temporary. Only a
    committed_offset of -1 without an error means that nothing is committed.

    ## Example
    ```story
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 900}]}]}
    > OffsetFetch v9 {"groups": [{"group_id": "g", "member_id": "m", "member_epoch": 5, "topics": [
       {"name": "t", "partition_indexes": [0]}]}]}
    < {"groups": [{"group_id": "g", "error_code": 113, "topics": []}]}
    > Fetch v12 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 900}]}]}
    ```

    ## Look-alikes
    ```story
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 900}]}]}
    > OffsetFetch v9 {"groups": [{"group_id": "g", "member_id": "m", "member_epoch": 5, "topics": [
       {"name": "t", "partition_indexes": [0]}]}]}
    < {"groups": [{"group_id": "g", "error_code": 113, "topics": []}]}
    > OffsetFetch v9 {"groups": [{"group_id": "g", "member_id": "m", "member_epoch": 6, "topics": [
       {"name": "t", "partition_indexes": [0]}]}]}
    < {"groups": [{"group_id": "g", "topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}]}
    > Fetch v12 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 900}]}]}
    ```

    ## Sources
    https://github.com/platformatic/kafka/issues/267
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    positions = connection.run.state(_Positions)
    if isinstance(event, RequestReceived):
        yield from _check_fetches(event, positions, connection)
        if not positions.refused or event.at - positions.refused_at > _MAX_DELAY:
            positions.refused.clear()
            connection.run.unsubscribe("S087")
        return
    if event.message is None or event.request_body is None or event.message.diagnosis is not None:
        return
    if event.message.api == "ListOffsets":
        for topic, rows, timestamps in _listed_offsets(event.message.body, event.request_body):
            for row in rows:
                kind = _ENDS.get(timestamps.get((topic, row.get("partition_index", 0)), 0))
                if kind and not row.get("error_code") and row.get("offset", -1) >= 0:
                    key = _consumer_partition((topic, row.get("partition_index", 0)), connection)
                    positions.listed.touch(key, dict)[kind] = row["offset"]
        return
    for group, topic_partition, code in _lookup_results(event.message.body, event.request_body):
        key = _consumer_partition(topic_partition, connection)
        if code:
            positions.refused[key], positions.refused_at = _Refusal(group, code, event.at), event.at
            connection.run.subscribe("S087")
        else:
            positions.refused.pop(key, None)


def _check_fetches(event: RequestReceived, positions: _Positions, connection: ConnectionState) -> Iterator[Problem]:
    for topic_partition, row, path in requested_partitions(event.message.body):
        key = _consumer_partition(topic_partition, connection)
        refusal = positions.refused.pop(key, None)
        offset = row.get("fetch_offset", -1)
        kind = next((end for end, listed in positions.listed.get(key, {}).items() if listed == offset), None)
        if refusal is None or kind is None or event.at - refusal.at > _MAX_DELAY:
            continue
        name = error_name(refusal.code) or str(refusal.code)
        retry_note = (
            " with the member_epoch of its last heartbeat response" if refusal.code == Error.STALE_MEMBER_EPOCH else ""
        )
        yield Problem(
            f"OffsetFetch of {key[2][0]}[{topic_partition[1]}] for group {refusal.group!r} was refused with {name}, "
            f"and the consumer reads from {offset}, the {kind} that ListOffsets returned, as if nothing were committed",
            **locate(event.message, *path, "fetch_offset"),
            hint=f"fix the client: it must repeat OffsetFetch{retry_note}; only committed_offset -1 without an error "
            "means "
            "that nothing is committed",
            cause=key[2][0],
        )


def _consumer_partition(topic_partition: TopicPartition, connection: ConnectionState) -> _ConsumerPartition:
    topic, partition = topic_partition
    return host_of(connection.client), connection.client_id, (connection.run.topic_names.get(topic, topic), partition)


def _listed_offsets(
    body: Mapping[str, Any], request_body: Mapping[str, Any]
) -> Iterator[tuple[str, list[Mapping[str, Any]], dict[TopicPartition, int]]]:
    """Yield each topic in a ListOffsets response with its rows, and the timestamps that were requested."""
    timestamps = {
        (topic.get("name", ""), row.get("partition_index", 0)): row.get("timestamp", 0)
        for topic in request_body.get("topics") or ()
        for row in topic.get("partitions") or ()
    }
    for topic in body.get("topics") or ():
        yield topic.get("name", ""), topic.get("partitions") or [], timestamps


def _lookup_results(
    body: Mapping[str, Any], request_body: Mapping[str, Any]
) -> Iterator[tuple[str, TopicPartition, int]]:
    """Yield each partition in an OffsetFetch request with its group and the error code of its lookup (0 for none)."""
    groups = {group.get("group_id"): group for group in body.get("groups") or ()}
    for group in request_body.get("groups") or [request_body]:
        name = group.get("group_id") or ""
        group_result = groups.get(name, {}) if groups else body
        codes = {
            (_topic_key(topic), row.get("partition_index", 0)): row.get("error_code", 0)
            for topic in group_result.get("topics") or ()
            for row in topic.get("partitions") or ()
        }
        for topic in group.get("topics") or ():
            for partition in topic.get("partition_indexes") or ():
                topic_partition = _topic_key(topic), partition
                yield name, topic_partition, group_result.get("error_code") or codes.get(topic_partition, 0)


def _topic_key(topic: Mapping[str, Any]) -> str:
    return topic.get("name") or topic.get("topic_id") or ""
