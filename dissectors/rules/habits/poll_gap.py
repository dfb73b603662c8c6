"""H013: a consumer that polls only just in time."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.topic_records import topic_records
from dissectors.records import outline
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import client_key

SHARE = Limit("share", 80, "%", "a consumer sends no fetch for this share of its max.poll.interval.ms")
GAPS = Limit("gaps", 2, "times", "so many times in a row")
RECORDS = Limit("records", 500, "records", "each after responses with at most so many records: those of one poll")

_MAX_CLIENTS = 10_000
_MS = 1_000_000


class _Consumer:
    """A client's group, its max.poll.interval.ms (ns), and the number of long gaps in a row.

    `records` is the number of records that it has received since its last fetch. They are not counted (None) before its
    first long gap.
    """

    def __init__(self, group: str, interval: int) -> None:
        self.group, self.interval = group, interval
        self.gaps = 0
        self.records: int | None = None


class _Consumers(BoundedDict[tuple[str, str | None], _Consumer]):
    """The consumers that have joined a group, by client."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "H013",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    also=(
        Trigger((RequestReceived,), ("JoinGroup",)),
        Trigger((ResponseReceived,), ("Fetch",), only=FrameFlags.SUBSCRIBED),  # once there has been a gap
    ),
    needs=(ConnectionsByClient, Fetches),
    limits=(SHARE, GAPS, RECORDS),
    complete_for=300,
    since="0.1",
    blame="client",
)
def poll_gap(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a consumer polls well before `max.poll.interval.ms` has elapsed.

    ## Why it matters
    A consumer that polls too late leaves its group: its partitions move to other members, its next commit fails, and
    the records are processed twice. A consumer that is barely in time will be too late one day.

    ## Usual cause
    Slow processing of the records from a poll, such as a call for each of 500 records.

    kproxy sees fetches, not polls: Java clients send fetches only while they poll, librdkafka also between polls. A
    response with many records is enough for several polls (`max.poll.records` is 500 by default), so only gaps after
    smaller responses count.

    ## Example
    ```story
    rule H013:gaps=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m"}
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    +52s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 3,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    +52s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 3}]}]}
    ```

    ## Look-alikes
    A short gap, and one longer than the interval, in which the consumer must have polled with paused partitions, or
    left the group:
    ```story
    rule H013:gaps=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m"}
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    +40s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 3,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    +70s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 3}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
    """
    run, client = connection.run, client_key(connection)
    consumers = run.state(_Consumers)
    if isinstance(event, ResponseReceived):
        if (reader := consumers.get(client)) is not None and reader.records is not None:
            reader.records += _count_records(event)
        return
    if event.message.api == "JoinGroup":
        body = event.message.body
        interval = body.get("rebalance_timeout_ms", 0) * _MS
        joining_consumer = consumers.touch(client, lambda: _Consumer(body.get("group_id") or "", interval))
        joining_consumer.group, joining_consumer.interval, joining_consumer.gaps = (
            body.get("group_id") or "",
            interval,
            0,
        )
        return
    consumer = consumers.get(client)
    if consumer is None:
        return
    other_connections = run.state(ConnectionsByClient).others(connection)
    last_answered_at = max(
        (other_connection.state(Fetches).answered_at for other_connection in (connection, *other_connections)),
        default=0,
    )
    gap, interval = event.at - last_answered_at, consumer.interval
    is_long = last_answered_at > 0 and gap * 100 >= interval * run.limit(SHARE)
    records = consumer.records
    if records is not None:
        consumer.records = 0
    if not is_long:
        if gap > interval // 10:
            consumer.gaps = 0
        return
    if records is None:
        consumer.records = 0
        run.subscribe("H013", api="Fetch")
        return
    if gap >= interval or records > run.limit(RECORDS):
        return
    consumer.gaps += 1
    if consumer.gaps >= run.limit(GAPS):
        consumer.gaps = 0
        yield Problem(
            f"{client_label(connection)} sent no fetch for {duration(gap)}; if it polls later than {duration(interval)}"
            f" (max.poll.interval.ms), it leaves group {consumer.group!r}",
            hint="process fewer records per poll (max.poll.records) or faster, or raise max.poll.interval.ms",
            cause=consumer.group,
        )


def _count_records(event: ResponseReceived) -> int:
    """Return the number of records in a response."""
    if event.message is None:
        return 0
    return sum(
        outline(records.data, records.batches).records
        for topic in topic_records(event.message)
        for records in topic.partitions
        if records.data
    )
