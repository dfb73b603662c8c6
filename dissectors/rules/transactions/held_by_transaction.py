"""T001: a read_committed consumer that waits for a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, DeadlinePassed, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.rules.helpers.transaction_holders import holder_of
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetch_facts import held_partitions, is_follower, is_read_committed
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label
from dissectors.trackers.producers import Producers
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.stable_offsets import StableOffsets
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import client_key

_CODE = "T001"
#: The timestamp with which ListOffsets asks for the end of a partition.
_END = -1
_MAX_CONNECTIONS = 10_000
_MAX_PARTITIONS = 100

#: How long an offset must not have moved to be reported; later checks are also this far apart.
STILL = Limit("still", 20, "s", "the last stable offset has not moved for so long while a consumer waits at it")
#: A consumer that was not answered within this time (ns) is not waiting.
_RECENT = 10 * SECOND


@dataclass(slots=True)
class _HeldPartition:
    """A last stable offset at which a consumer waits: since when, the latest high watermark, and when to check next."""

    stable: int
    end: int
    since: int
    due: int


class _UncommittedEnds(BoundedDict[tuple[tuple[str, str | None], TopicPartition], int]):
    """The ends of partitions that ListOffsets returned to a client that did not ask for committed records only."""

    def __init__(self) -> None:
        super().__init__(_MAX_CONNECTIONS)


class _HeldPartitions:
    """The partitions at which consumers wait, by connection. A last stable offset never goes back.

    Two responses with the same offset, however far apart, show that it has not moved between them.
    """

    def __init__(self) -> None:
        self.by_connection: BoundedDict[str, BoundedDict[TopicPartition, _HeldPartition]] = BoundedDict(
            _MAX_CONNECTIONS
        )


@rule(
    _CODE,
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.HELD,
    also=(Trigger((DeadlinePassed, ConnectionEnded)), Trigger((ResponseReceived,), ("ListOffsets",))),
    limits=(STILL,),
    needs=(Fetches, Producers, OpenTransactions, StableOffsets),
    since="0.1",
    blame="client",
)
def held_by_transaction(
    event: ResponseReceived | DeadlinePassed | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that no open transaction holds up the consumers that read committed records.

    ## Why it matters
    With isolation.level read_committed, a consumer gets no record above the last stable offset: the start of the oldest
    open transaction of the partition. It waits without an error while its lag grows, also for other producers' records.
    The finding names the producer that holds the offset, if its transaction was observed; it has severity info while
    that producer is active.

    ## Usual cause
    A producer that crashed, hangs, or forgot to commit: the coordinator aborts its transaction after
    transaction.timeout.ms. Or a hanging transaction, which the coordinator does not know about (KIP-664): it is never
    aborted; `kafka-transactions.sh find-hanging` and `abort` end it.

    ## Example
    ```story
    2> InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 600000}
    2< {"producer_id": 9001, "producer_epoch": 0}
    2> AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
       "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    2< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +18s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 5, "records": ""}]}]}
    +3s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 5, "records": ""}]}]}
    ```

    In a fetch session, the broker does not repeat unchanged partitions:
    ```story
    > Fetch v12 {"isolation_level": 1, "session_epoch": 0,
      "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"session_id": 7, "responses": [
      {"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +18s
    > Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 1}
    < {"session_id": 7}
    +3s
    > Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 2}
    ```

    ## Look-alikes
    The transaction ends:
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +18s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 7, "records": ""}]}]}
    +3s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 9, "records": ""}]}]}
    +30s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 9}]}]}
    ```
    The consumer is gone, or reads all records:
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    close
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    2< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +30s
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-664%3A+Provide+tooling+to+detect+and+abort+hanging+transactions
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    """
    held_by_connection, key = connection.run.state(_HeldPartitions).by_connection, connection.connection_id
    if isinstance(event, ResponseReceived) and event.message is not None and event.message.api == "ListOffsets":
        _note_uncommitted_ends(event, connection)
    elif isinstance(event, ConnectionEnded):
        for topic_partition in held_by_connection.pop(key, ()):
            connection.meet_deadline(_CODE, (key, topic_partition))
    elif isinstance(event, DeadlinePassed):  # a fetch session omits unchanged partitions
        topic_partition, fetches = event.about, connection.state(Fetches)
        held_partition = held_by_connection.get(key, {}).get(topic_partition)
        if (
            held_partition is not None
            and fetches.sessions.waits_at(topic_partition, held_partition.stable)
            and event.at - fetches.answered_at < _RECENT
        ):
            yield _report_and_reschedule(topic_partition, held_partition, event.at, connection)
    elif event.message is not None and event.request_body is not None and not is_follower(event.request_body):
        offsets = connection.state(Fetches).sessions.offsets(event.request)
        for topic_partition, row in held_partitions(event.message.body):
            if is_read_committed(event.request_body) and offsets.get(topic_partition) == row["last_stable_offset"]:
                held_partition = _record_waiting(topic_partition, row, event.at, connection, held_by_connection)
                if event.at >= held_partition.due:
                    yield _report_and_reschedule(topic_partition, held_partition, event.at, connection)


def _note_uncommitted_ends(event: ResponseReceived, connection: ConnectionState) -> None:
    """Remember the ends of partitions that a client asks for without read_committed."""
    if event.message is None or event.request_body is None or is_read_committed(event.request_body):
        return
    asked_for_end = {
        (topic.get("name"), row.get("partition_index"))
        for topic in event.request_body.get("topics") or ()
        for row in topic.get("partitions") or ()
        if row.get("timestamp") == _END
    }
    ends, client = connection.run.state(_UncommittedEnds), client_key(connection)
    for topic in event.message.body.get("topics") or ():
        for row in topic.get("partitions") or ():
            topic_partition = topic.get("name") or "", row.get("partition_index", 0)
            if topic_partition in asked_for_end and not row.get("error_code"):
                ends[client, topic_partition] = row.get("offset", -1)


def _record_waiting(
    topic_partition: TopicPartition,
    row: Mapping[str, Any],
    at: int,
    connection: ConnectionState,
    held_by_connection: BoundedDict[str, BoundedDict[TopicPartition, _HeldPartition]],
) -> _HeldPartition:
    """Record and return the last stable offset at which a consumer waits."""
    stable, end = row["last_stable_offset"], row["high_watermark"]
    topic_partitions = held_by_connection.touch(connection.connection_id, lambda: BoundedDict(_MAX_PARTITIONS))
    held_partition = topic_partitions.get(topic_partition)
    if held_partition is None or held_partition.stable != stable:
        held_partition = topic_partitions[topic_partition] = _HeldPartition(stable, end, at, at + _limit_ns(connection))
        connection.set_deadline(
            _CODE, (connection.connection_id, topic_partition), by=held_partition.due, about=topic_partition
        )
    held_partition.end = end
    return held_partition


def _limit_ns(connection: ConnectionState) -> int:
    """Return the `STILL` limit in ns."""
    return int(connection.run.limit(STILL) * SECOND)


def _report_and_reschedule(
    topic_partition: TopicPartition, held_partition: _HeldPartition, at: int, connection: ConnectionState
) -> Problem:
    """Return the problem of a partition, and schedule its next check."""
    held_partition.due = at + _limit_ns(connection)
    connection.set_deadline(
        _CODE, (connection.connection_id, topic_partition), by=held_partition.due, about=topic_partition
    )
    return _problem(topic_partition, held_partition, at, connection)


def _problem(
    topic_partition: TopicPartition, partition: _HeldPartition, at: int, connection: ConnectionState
) -> Problem:
    """Return the problem that says what holds a partition."""
    partition_name, lag = label(topic_partition, connection), partition.end - partition.stable
    text = (
        f"{partition_name}: read_committed consumers wait at {partition.stable} with"
        f" {count_text(lag, 'more record')} up to the high watermark {partition.end}; the last stable offset has"
        f" not moved for {duration(at - partition.since)}"
    )
    holder = holder_of(topic_partition, partition.stable, partition.since, at, connection, consumer_waits=True)
    named_partition = connection.run.topic_names.get(topic_partition[0], topic_partition[0]), topic_partition[1]
    end = connection.run.state(_UncommittedEnds).get((client_key(connection), named_partition), -1)
    text, hint = f"{text}: {holder.text}", holder.hint
    if end > partition.stable:
        text += f"; ListOffsets with isolation_level 0 told the client that the end is {end}, which it cannot reach"
        hint = f"if the client waits for that end, it must use isolation_level 1 in ListOffsets, too; {hint}"
    return Problem(
        text,
        hint=hint,
        severity=holder.severity,
        blame=holder.blame,
        once_per=(partition_name, partition.stable, holder.kind),
    )
