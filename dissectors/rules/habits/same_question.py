"""H020: a client that asks the cluster the same question again and again."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

CALLS = Limit("calls", 60, "calls", "a client sends the same request so often", 2)
WITHIN = Limit("within", 60, "s", "within this time")

#: Administrative requests, and requests that consumers send once when they start. S009 covers Metadata.
_APIS = (
    "ListOffsets", "OffsetFetch", "FindCoordinator", "DescribeGroups", "ListGroups", "CreateTopics", "CreatePartitions",
    "DescribeConfigs", "IncrementalAlterConfigs", "AlterConfigs", "DescribeAcls", "DescribeCluster",
    "DescribeProducers", "DescribeTopicPartitions", "ConsumerGroupDescribe", "DescribeLogDirs",
    "ListTransactions", "DescribeTransactions", "DescribeUserScramCredentials", "DescribeClientQuotas",
    "ListPartitionReassignments", "DescribeQuorum",
)  # fmt: skip

_MAX_QUESTIONS = 10_000
#: The bytes of the size, API key, version and correlation id, which differs each time.
_HEADER = 12


class _RequestCount:
    """How often a request has been sent since `since` (ns)."""

    def __init__(self) -> None:
        self.count = self.since = 0


class _RequestCounts(BoundedDict[tuple[str, str | None, int, int], _RequestCount]):
    """The counts by client, API and hash of the request."""

    def __init__(self) -> None:
        super().__init__(_MAX_QUESTIONS)


@rule(
    "H020",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=_APIS,
    limits=(CALLS, WITHIN),
    since="0.1",
    blame="client",
)
def same_question(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients that send the same administrative request for each message or call.

    ## Why it matters
    Some of these requests go to the controller or read many files, and all of them wait in the same broker queue as
    records. The program waits for a round trip each time.

    ## Usual cause
    "Create the topic if it does not exist", or a lookup of the committed offset, the end of a partition or the
    configuration, in the function that handles one message.

    ## Example
    ```story
    rule H020:calls=3
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]}
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}]}
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 3}]}]}
    ```

    ## Look-alikes
    Different requests, such as those of a monitoring program, and the same request once in a while:
    ```story
    rule H020:calls=3
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]}
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 1, "offset": 2}]}]}
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 2, "offset": 3}]}]}
    +2m
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 4}]}]}
    +2m
    > ListOffsets v5 {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 5}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_api_keys
    """
    message, run = event.message, connection.run
    key = (*client_key(connection), message.api_key, hash(bytes(message.frame[_HEADER:])))
    counter = run.state(_RequestCounts).touch(key, _RequestCount)
    if counter.count == 0 or event.at - counter.since > run.limit(WITHIN) * SECOND:
        counter.count, counter.since = 0, event.at
    counter.count += 1
    if counter.count >= run.limit(CALLS):
        count, counter.count = counter.count, 0
        yield Problem(
            f"{client_label(connection)} sent the same {message.api} request {count} times within"
            f" {duration(event.at - counter.since)}",
            hint="ask once, when the program starts or on a schedule, and keep the answer; not for each message",
            cause=f"{message.api} {connection.client_id}",
        )
