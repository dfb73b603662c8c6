"""H012: a consumer that requests more than brokers send and more than it can hold."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.fetch_facts import is_follower, requested_partitions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

BYTES = Limit("bytes", 128 << 20, "bytes", "a consumer requests so many bytes of a partition, and in all")


@rule(
    "H012",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Fetch",),
    only=FrameFlags.FIRST,
    limits=(BYTES,),
    since="0.1",
    blame="client",
)
def fetch_size_huge(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports consumers that request hundreds of megabytes from a partition at a time.

    ## Why it matters
    The client must be able to hold all that it requests from each broker: a backlog ends in `OutOfMemoryError`, often
    when the client restarts after a failure. The first partition fills the response, and the others wait.

    ## Usual cause
    `max.partition.fetch.bytes` and `fetch.max.bytes` were set to the maximum to let large records through. That is not
    necessary: a broker always sends the first batch. It sends at most 55 MB (`fetch.max.bytes` of brokers since Kafka
    2.5); other servers may send more.

    ## Example
    ```story
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 2147483647, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 2147483647}]}]}
    ```

    ## Look-alikes
    Java's defaults, and a large limit that the other, smaller one bounds:
    ```story
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 52428800, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1048576}]}]}
    ```
    ```story
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 2147483647, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1048576}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.bytes
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-541%3A+Create+a+fetch.max.bytes+configuration+for+the+broker
    """
    body, limit = event.message.body, connection.run.limit(BYTES)
    total = body.get("max_bytes", 1 << 31)
    if total < limit or is_follower(body):
        return
    for _, partition, path in requested_partitions(body):
        size = partition.get("partition_max_bytes", 0)
        if size >= limit:
            yield Problem(
                f"{client_label(connection)} requests up to {min(size, total):,} bytes of a partition in one response, "
                "and must hold as many",
                **locate(event.message, *path, "partition_max_bytes"),
                hint="set max.partition.fetch.bytes to a few megabytes, and fetch.max.bytes to 50 MB, the default:"
                " larger batches arrive in any case",
                cause="huge",
            )
            return
