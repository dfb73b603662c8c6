"""Repetitions: the same request and the same answer again and again, and nothing else on the connection."""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.connections.events import ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState

#: APIs whose repetitions are counted: all but Produce and the APIs that clients repeat by design (heartbeats, fetches,
#: commits, telemetry).
REPEATABLE = (
    "Metadata", "FindCoordinator", "ApiVersions", "ListOffsets", "OffsetFetch", "OffsetForLeaderEpoch", "JoinGroup",
    "SyncGroup", "LeaveGroup", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "CreateTopics",
    "DeleteTopics", "CreatePartitions", "DeleteRecords", "DescribeTopicPartitions", "DescribeConfigs", "AlterConfigs",
    "IncrementalAlterConfigs", "DescribeCluster", "DescribeGroups", "ListGroups", "DeleteGroups",
    "ConsumerGroupDescribe", "DescribeProducers", "DescribeTransactions", "ListTransactions", "DescribeLogDirs",
    "DescribeAcls", "CreateAcls", "DescribeQuorum", "DescribeClientQuotas", "ElectLeaders",
    "AlterPartitionReassignments", "ListPartitionReassignments", "GetTelemetrySubscriptions",
)  # fmt: skip

#: The longest time (ns) between an answer and the next request. Pollers wait longer.
MAX_GAP = 1_000_000_000

#: The earliest start of a response's body: after its length and correlation id.
_BODY_START = 8


@dataclass(slots=True, eq=False)
class Repetition:
    """The latest exchange of a connection, and how often it occurred in a row.

    `since` is the time of the first answer and `last` is the time of the latest answer (ns).
    """

    api_key: int = -1
    version: int = -1
    request_hash: int = 0
    response_hash: int = 0
    end: int = -1
    since: int = 0
    last: int = 0
    times: int = 0


@tracker(events=(ResponseReceived,), apis=REPEATABLE, per="connection")
class Repetitions:
    """The repetitions on one connection. A request counts only if the connection sent nothing else in between.

    Two requests are the same if their bodies are, and so are two answers. One object is kept per connection.
    """

    def __init__(self) -> None:
        self.latest = Repetition()

    def observe(self, event: ResponseReceived, _: ConnectionState) -> None:
        """Compare an exchange with the one before it."""
        message, request = event.message, event.request
        if message is None or request is None:
            return
        request_message, latest = request.message, self.latest
        request_hash, response_hash = (
            hash(request_message.frame[request_message.body_start :]),
            hash(message.frame[_BODY_START:]),
        )
        if (
            latest.end == request.offset
            and latest.api_key == message.api_key
            and latest.version == message.version
            and latest.request_hash == request_hash
            and latest.response_hash == response_hash
            and 0 <= request.at - latest.last <= MAX_GAP
        ):
            latest.times += 1
        else:
            latest.api_key, latest.version, latest.times, latest.since = message.api_key, message.version, 1, event.at
        latest.request_hash, latest.response_hash = request_hash, response_hash
        latest.end, latest.last = request.offset + len(request_message.frame), event.at
