"""S037: a client that ignores throttle_time_ms."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000
_MAX_LATENCY = 200 * _MS
_THRESHOLD = 3

#: First version of each API in which the client waits, because the broker answers at once (KIP-219). In APIs that are
#: not listed, the client waits from version 0 on.
_FIRST_CLIENT_THROTTLED = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
    "DeleteGroups": 1,
    "OffsetForLeaderEpoch": 1 << 15,
}


class _Throttle:
    """The last throttle (start and end in ns, wait in ms, offset after its request), and the number ignored so far."""

    def __init__(self) -> None:
        self.since = self.until = self.next_offset = self.duration_ms = 0
        self.ignored = 0


@rule(
    "S037",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    only=FrameFlags.THROTTLED,
    needs=(InFlight,),
    since="0.1",
    blame="client",
)
def throttle_ignored(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a throttled client sends nothing on the connection until the throttle time ends.

    ## Why it matters
    Since KIP-219, the broker answers at once, states the wait time in throttle_time_ms, and does not read the
    connection until it ends. A client that keeps sending only fills its own buffers and mistakes the delay for broker
    latency: its requests time out and are resent. Reported the third time on a connection.

    ## Usual cause
    The client treats throttle_time_ms as a mere metric.

    ## Example
    ```story
    > Produce v7 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 1000}
    > Produce v7 {"acks": 1, "topic_data": []}
    +1s
    < {"throttle_time_ms": 1000}
    > Produce v7 {"acks": 1, "topic_data": []}
    +1s
    < {"throttle_time_ms": 1000}
    > Produce v7 {"acks": 1, "topic_data": []}
    ```

    ## Look-alikes
    Requests that were already on their way, and old versions, in which the broker itself waits:
    ```story
    > Produce v7 {"acks": 1, "topic_data": []}
    > Produce v7 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 1000}
    > Produce v7 {"acks": 1, "topic_data": []}
    +1s
    < {"throttle_time_ms": 1000}
    > Produce v7 {"acks": 1, "topic_data": []}
    +1s
    < {"throttle_time_ms": 1000}
    > Produce v7 {"acks": 1, "topic_data": []}
    ```
    ```story
    > Produce v5 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 1000}
    > Produce v5 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 1000}
    > Produce v5 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 1000}
    > Produce v5 {"acks": 1, "topic_data": []}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-219+-+Improve+quota+communication
    https://github.com/influxdata/rskafka/issues/182
    """
    if isinstance(event, RequestReceived):
        throttle = connection.state(_Throttle)
        if event.at >= throttle.until:
            return
        # The request may have been on its way already, unless it directly follows the throttled one.
        if event.offset != throttle.next_offset and event.at - throttle.since < _MAX_LATENCY:
            return
        remaining_ms = (throttle.until - event.at) // _MS
        throttle.until = 0
        throttle.ignored += 1
        if throttle.ignored == _THRESHOLD:
            yield Problem(
                f"client {connection.client_id!r} sends {event.message.api} {remaining_ms} ms before the end of a "
                f"throttle of {throttle.duration_ms} ms, as it did {_THRESHOLD - 1} times before",
                hint="use a client that waits for throttle_time_ms (KIP-219), or raise its quota",
                expected=f"no request for {throttle.duration_ms} ms",
                got=f"{event.message.api} after {throttle.duration_ms - remaining_ms} ms",
            )
        return
    message, request = event.message, event.request
    if message is None or request is None or (wait_ms := message.body.get("throttle_time_ms", 0)) <= 0:
        return
    if message.version >= _FIRST_CLIENT_THROTTLED.get(message.api, 0):
        throttle = connection.state(_Throttle)
        throttle.since, throttle.until, throttle.duration_ms = event.at, event.at + wait_ms * _MS, wait_ms
        throttle.next_offset = request.offset + request.size + 4
        connection.run.subscribe("S037")
